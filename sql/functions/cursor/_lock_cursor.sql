-- Takes a queue's cursor lock for the rest of the transaction, waiting no longer than the setting
-- lock_timeout (55P03). True when it had to wait.
-- Locks: 1836150833, subscription_id * 1024 + queue_id + 1. Cost: none to speak of where nobody holds it.
create function mqpg._lock_cursor(subscription_id int, queue_id int) returns boolean
language plpgsql as $$
declare
    v_key int := _lock_cursor.subscription_id * 1024 + _lock_cursor.queue_id + 1;
    v_timeout text;
begin
    if pg_try_advisory_xact_lock(1836150833, v_key) then
        return false;
    end if;
    v_timeout := mqpg._apply_lock_timeout();
    perform pg_advisory_xact_lock(1836150833, v_key);
    perform set_config('lock_timeout', v_timeout, true);
    return true;
end
$$;
comment on function mqpg._lock_cursor(int, int) is 'Internal: take a queue''s cursor lock';
