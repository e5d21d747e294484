-- One delivery in flight on one queue of one subscription; lives inside cursor.claims only.
-- epoch is version * 2^20 + xid modulo 2^20 of the hand-out: a later one always has a greater epoch, and
-- one that was rolled back differs from the one that takes its version. Negative: free, no receipt fits.
create type mqpg.claim as (
    epoch bigint,
    from_offset bigint,     -- inclusive
    to_offset bigint,       -- exclusive
    attempt int,            -- deliveries of this range so far, this one included
    lease_until timestamptz,-- '-infinity': given back, free to be taken
    consumer text,
    settled bigint[]        -- offsets inside the range that left the claim (nacked)
);
comment on type mqpg.claim is 'A delivery in flight: offset range, fencing epoch, attempt, lease';
