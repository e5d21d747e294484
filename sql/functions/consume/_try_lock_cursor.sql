-- Takes a queue's cursor lock until the end of the transaction, waiting up to 20 ms. Returns false
-- if another transaction kept it.
-- Locks: 1836150833 with subscription_id * 1024 + queue_id + 1.
-- Cost: a subtransaction.
create function mqpg._try_lock_cursor(subscription_id int, queue_id int) returns boolean
language plpgsql as $$
declare
    v_timeout text := current_setting('lock_timeout');
begin
    perform set_config('lock_timeout', '20ms', true);
    perform pg_advisory_xact_lock(
        1836150833, _try_lock_cursor.subscription_id * 1024 + _try_lock_cursor.queue_id + 1);
    perform set_config('lock_timeout', v_timeout, true);
    return true;
exception when lock_not_available then
    return false;
end
$$;
