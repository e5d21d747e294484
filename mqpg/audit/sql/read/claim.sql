-- The claims of each version of a cursor, one row for each. nth: its place in the version. held: how
-- many offsets it holds.
select
    c.subscription_id,
    c.queue_id::int as queue_id,
    c.version, c.slot,
    k.nth::int as nth,
    k.epoch, k.from_offset, k.to_offset, k.lease_until, k.consumer, k.settled, k.picked,
    (case
        when k.picked is not null then cardinality(k.picked)
        else k.to_offset - k.from_offset - coalesce(cardinality(k.settled), 0)
    end)::bigint as held
from mqpg.audit_cursor as c
cross join lateral unnest(c.claims) with ordinality
    as k (epoch, from_offset, to_offset, attempt, lease_until, consumer, settled, picked, key, nth)
