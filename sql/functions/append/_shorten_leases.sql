-- Shortens leases and waits that were written while the server's clock was ahead, in queues that nobody
-- uses at this moment. Receipts stay valid.
-- Locks: the lock of all cursors of each subscription, tried only. If somebody uses one of them, each
-- queue's cursor lock instead, at most 250 in all, because the lock table of the server is small.
-- Cost: one lookup for each queue, and a cursor version where there is something to mend.
create function mqpg._shorten_leases(by interval) returns void
language plpgsql as $$
declare
    v_queue record;
    v_id int;           -- the subscription whose lock was tried
    v_has_all boolean;  -- that lock was free
    v_locked int := 0;  -- queues that were locked one by one
begin
    for v_queue in
        select s.subscription_id, q.queue_id
        from mqpg.subscription s
        join mqpg.topic t on t.topic_id = s.topic_id
        cross join lateral generate_series(-1, t.queues - 1) as q(queue_id)
        cross join lateral mqpg._newest_cursor(s.subscription_id, q.queue_id) as k
        where k.at > clock_timestamp() and k.claims <> '{}'
        order by s.subscription_id
    loop
        if v_id is distinct from v_queue.subscription_id then
            v_id := v_queue.subscription_id;
            v_has_all := pg_try_advisory_xact_lock(1836150843, v_id);
        end if;
        if not v_has_all then
            continue when v_locked = 250
                or not pg_try_advisory_xact_lock_shared(1836150843, v_id)
                or not mqpg._lock_free_cursor(v_id, v_queue.queue_id);
            v_locked := v_locked + 1;
        end if;
        -- If nothing was appended for some time before the clock's step, `by` is too little.
        perform mqpg._shorten_claims(v_id, v_queue.queue_id, _shorten_leases.by);
    end loop;
end
$$;
