-- Takes a queue's cursor lock until the end of the transaction. Returns true if it had to wait.
-- Locks: 1836150843 with subscription_id, shared, and 1836150833 with subscription_id * 1024 +
-- queue_id + 1, each waiting up to the setting lock_timeout.
-- Cost: negligible if no other transaction has the lock.
-- Errors: 55P03.
create function mqpg._lock_cursor(subscription_id int, queue_id int) returns boolean
language plpgsql as $$
declare
    v_key int := _lock_cursor.subscription_id * 1024 + _lock_cursor.queue_id + 1;
    v_shares boolean := pg_try_advisory_xact_lock_shared(1836150843, _lock_cursor.subscription_id);
    v_timeout text;
begin
    if v_shares and pg_try_advisory_xact_lock(1836150833, v_key) then
        return false;
    end if;
    v_timeout := mqpg._apply_lock_timeout();
    if not v_shares then
        perform pg_advisory_xact_lock_shared(1836150843, _lock_cursor.subscription_id);
    end if;
    perform pg_advisory_xact_lock(1836150833, v_key);
    perform set_config('lock_timeout', v_timeout, true);
    return true;
end
$$;
