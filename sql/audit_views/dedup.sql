-- Dedup ids of recent sends, as hashes. A send writes its id into two slots. A row with a negated message
-- says where the next message of an id is found that is free again.
-- Cost: as the table, and one hash for each row if dedup_hash is read.
create view mqpg_audit.dedup as
select d.message_id, d.message_id >> 10 as batch_id, abs(d.topic_id) as topic_id, d.slot,
    encode(sha256(convert_to(d.dedup_id, 'UTF8')), 'hex') as dedup_hash
from mqpg.dedup as d
where d.message_id > 0;
-- message_id: Id of the message
-- batch_id: message_id / 1024, to join with message
-- topic_id: Id of the topic
-- slot: Number of the period
-- dedup_hash: SHA-256 of the dedup id
