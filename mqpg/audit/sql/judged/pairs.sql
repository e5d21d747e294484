-- Pairs of messages with one dedup id, at least one of them below judged.until_id.
select distinct a.message_id, b.message_id as other_id
from dedup as a
join dedup as b on b.topic_id = a.topic_id and b.dedup_hash = a.dedup_hash and b.message_id > a.message_id
cross join judged as j
where a.message_id < j.until_id
