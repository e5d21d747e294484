-- Warns where a session that does nothing in mqpg (see the view foreign_locks) holds the lock of a
-- subscription, or of a queue that has messages. A queue that another consumer has locked is no
-- reason for a warning. An empty receive() is repeated again and again, so one call in ten looks.
-- Arguments: queue_id: the queue; null where the lock of the subscription was not free.
-- Locks: none. Cost: reading the server's list of locks, in one call of ten.
create function mqpg._report_foreign_lock(subscription_id int, queue_id int) returns void
language plpgsql as $$
declare
    v_lock record;
begin
    if random() > 0.1 then
        return;
    end if;
    select f.pid, f.role, f.remedy, f.stops into v_lock
    from mqpg.foreign_locks f
    where case when _report_foreign_lock.queue_id is null
            then f.lock_class = 1836150843 and f.lock_key = _report_foreign_lock.subscription_id
            else f.lock_class = 1836150833
                and f.lock_key = _report_foreign_lock.subscription_id * 1024 + _report_foreign_lock.queue_id + 1
        end;
    if found then
        raise warning using
            message = format('process %s of role %L holds a lock that stops the %s', v_lock.pid, v_lock.role,
                v_lock.stops),
            hint = v_lock.remedy;
    end if;
end
$$;
