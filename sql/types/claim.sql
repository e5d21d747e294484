-- One delivery in flight on one queue of one subscription; lives inside cursor.claims only.
-- epoch is version * 2^20 + xid modulo 2^20 of the hand-out: a later one always has a greater epoch, and
-- one that was rolled back differs from the one that takes its version. Negative: nobody holds it, no receipt fits.
-- Not every offset of the range need be in it: `settled` ones left it, or `picked` names the ones it has (what a
-- filter chose, what waits behind a failed message); at most one of the two is set.
create type mqpg.claim as (
    epoch bigint,
    from_offset bigint,     -- inclusive
    to_offset bigint,       -- exclusive
    attempt int,            -- deliveries of this range so far, this one included
    lease_until timestamptz,-- of a negative epoch: not to be handed out before; '-infinity': free at once
    consumer text,
    settled bigint[],       -- offsets inside the range that left the claim (nacked)
    picked bigint[],        -- null: all of the range; else ascending, the first is from_offset, the last to_offset - 1
    key text                -- block_key: what waits for that key's failed message, or is it; all of this key
);
comment on type mqpg.claim is 'A delivery in flight: offset range, fencing epoch, attempt, lease';
