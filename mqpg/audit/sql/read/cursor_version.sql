-- The cursors with all their versions. Their claims are in claim. buries: what expired became dead
-- letters.
select
    c.subscription_id, c.queue_id, c.slot, c.version,
    c.committed_offset as committed,
    c.claimed_offset as claimed,
    c.changed_at as at,
    c.epoch, c.action, c.owner,
    c.action = 'expired' and coalesce(c.reason = 'dead_letter', false) as buries
from mqpg_audit.position_change as c
