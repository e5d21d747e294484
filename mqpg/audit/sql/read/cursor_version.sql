-- The cursors with all their versions. Their claims are in claim.
select
    c.subscription_id, c.queue_id, c.slot, c.version,
    c.committed_offset as committed,
    c.claimed_offset as claimed,
    c.changed_at as at,
    c.epoch, c.action, c.owner
from mqpg_audit.position_change as c
