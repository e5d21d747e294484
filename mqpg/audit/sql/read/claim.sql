-- The claims of each version of a cursor, one row for each. nth: its place in the version. held: how
-- many offsets it holds.
select
    c.subscription_id, c.queue_id, c.version, c.slot, c.nth, c.epoch, c.attempt, c.from_offset, c.to_offset,
    coalesce(c.lease_until, '-infinity') as lease_until,
    c.holder as consumer,
    c.settled, c.picked,
    (case
        when c.picked is not null then cardinality(c.picked)
        else c.to_offset - c.from_offset - coalesce(cardinality(c.settled), 0)
    end)::bigint as held
from mqpg_audit.claim as c
