-- Waits for a call of keep() that is copying cursors, up to 200 ms, and returns whether there was
-- one. The caller has found queues locked, and keep() may be why.
-- Locks: 1836150835 with 1, shared, released at once: while a caller's transaction had it, keep()
-- could not copy any cursor.
-- Cost: negligible if keep() copies nothing; else a subtransaction.
create function mqpg._await_cursor_copy() returns boolean
language plpgsql as $$
begin
    -- One expression, so that nothing interrupts the session between taking and releasing.
    if pg_try_advisory_lock_shared(1836150835, 1) and pg_advisory_unlock_shared(1836150835, 1) then
        return false;
    end if;
    perform set_config('lock_timeout', '200ms', true);
    perform pg_advisory_xact_lock_shared(1836150835, 1);
    raise sqlstate 'MQ000';     -- gives the lock back
exception
    when sqlstate 'MQ000' or lock_not_available then
        return true;
end
$$;
