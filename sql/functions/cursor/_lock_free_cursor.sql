-- Takes a queue's cursor lock until the end of the transaction. Returns false if another one has it.
-- The planner puts the call of PostgreSQL's function in place of this one, if the arguments are variables.
-- Locks: 1836150833 with subscription_id * 1024 + queue_id + 1, tried only. Cost: none of its own.
create function mqpg._lock_free_cursor(subscription_id int, queue_id int) returns boolean
language sql volatile as $$
    select pg_try_advisory_xact_lock(
        1836150833, _lock_free_cursor.subscription_id * 1024 + _lock_free_cursor.queue_id + 1)
$$;
