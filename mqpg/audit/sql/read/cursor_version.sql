-- The cursors with all their versions. Their claims are in claim.
select
    c.subscription_id,
    c.queue_id::int as queue_id,
    c.slot, c.version, c.committed, c.claimed, c.at, c.epoch, c.action, c.owner
from mqpg.audit_cursor as c
