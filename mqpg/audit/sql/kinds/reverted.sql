-- reverted: a position went back without a seek back that is recorded, or a new incarnation.
select f.consumer_group, f.topic, f.queue_id, f.queue_offset, null::bigint as message_id, f.evidence
from cursor_fault as f
where f.kind = 'reverted'
