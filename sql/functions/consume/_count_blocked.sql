-- How many messages of a queue wait for the back-off of a failed message, or are one.
-- Locks: none. Cost: linear in the claims.
create function mqpg._count_blocked(claims mqpg.claim []) returns bigint
language sql immutable as $$
    select coalesce(sum(coalesce(cardinality(c.picked), c.to_offset - c.from_offset)), 0)::bigint
    from unnest(_count_blocked.claims) as c
    where c.epoch < 0 and c.lease_until > '-infinity'
$$;
