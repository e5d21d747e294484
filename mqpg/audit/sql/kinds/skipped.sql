-- skipped: a position moved forward without the action that explains it, or versions are missing.
select f.consumer_group, f.topic, f.queue_id, f.queue_offset, null::bigint as message_id, f.evidence
from cursor_fault as f
where f.kind = 'skipped'
