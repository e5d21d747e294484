-- A delivery in flight: offset range, fencing epoch, attempt and lease. Values of this type exist
-- only in cursor.claims.
-- An epoch is computed as version * 2^20 + (xid modulo 2^20) when the messages are delivered. A
-- later delivery always has a greater epoch. A delivery that was rolled back has another epoch than
-- the one that reuses its version, because the xid differs. A negative epoch marks a range that no
-- consumer holds, so no receipt matches it.
-- A claim need not hold every offset of its range. `settled` lists offsets that left it; `picked`
-- lists the only offsets that it has, because a filter chose them or because they wait behind a
-- failed message. At most one of the two is set.
create type mqpg.claim as (
    epoch bigint,
    from_offset bigint,     -- inclusive
    to_offset bigint,       -- exclusive
    attempt int,            -- how often this range was delivered, this delivery included
    lease_until timestamptz,-- negative epoch: not delivered before this time; '-infinity': may be delivered at once
    consumer text,
    settled bigint[],       -- offsets in the range that left the claim: nacked, or acked alone
    picked bigint[],        -- null: the whole range; else ascending, from_offset to to_offset - 1
    key text                -- on_failure block_key: the failed message's key, shared by the claim
);
