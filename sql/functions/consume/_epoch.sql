-- The epoch of a claim that this version of a cursor makes. The transaction id makes a receipt
-- differ from one that a rolled-back transaction had. Divided by
-- 1048576 it is the version again.
-- Locks: none. Cost: negligible (inlined).
create function mqpg._epoch(version bigint) returns bigint
language sql volatile as $$
    select _epoch.version * 1048576 + txid_current() % 1048576
$$;
