-- The second key of the advisory lock of the compensator that serves a ledger in another database
-- (LOCK_LEDGER in sql/numbers.md).
-- Locks: none. Cost: negligible.
create function mqpg._ledger_lock(checker_target text) returns int
language sql immutable as $$
    select hashtext(_ledger_lock.checker_target) & 2147483647
$$;
