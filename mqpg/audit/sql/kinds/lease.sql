-- lease: two claims hold one offset or, in the modes for one reader, two readers one queue, or a claim
-- was taken over before its lease ended.
select f.consumer_group, f.topic, f.queue_id, f.queue_offset, null::bigint as message_id, f.evidence
from cursor_fault as f
where f.kind = 'lease'
