-- Claims without a consumer for messages given one by one. Messages with the same number of
-- deliveries, the same key and the same end of their back-off ('-infinity': free) share a claim.
-- Locks: none. Cost: linear in the messages.
create function mqpg._pack_claims(
    version bigint, offsets bigint [], deliveries int [], keys text [], untils timestamptz []
) returns mqpg.claim []
language sql immutable as $$
    select coalesce(array_agg(row(
        -_pack_claims.version - 1, g.first, g.last + 1, g.deliveries, g.until, null, null,
        case when g.last - g.first + 1 > cardinality(g.offsets) then g.offsets end, g.key
    )::mqpg.claim order by g.first), '{}')
    from (
        select min(u.o) as first, max(u.o) as last, array_agg(u.o order by u.o) as offsets, u.deliveries, u.key, u.until
        from unnest(_pack_claims.offsets, _pack_claims.deliveries, _pack_claims.keys, _pack_claims.untils)
            as u(o, deliveries, key, until)
        group by u.deliveries, u.key, u.until
    ) as g
$$;
