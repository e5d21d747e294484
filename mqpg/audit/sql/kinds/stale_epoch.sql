-- stale_epoch: an epoch that no claim had was accepted, or a claim's epoch does not rise.
select f.consumer_group, f.topic, f.queue_id, f.queue_offset, null::bigint as message_id, f.evidence
from cursor_fault as f
where f.kind = 'stale_epoch'
