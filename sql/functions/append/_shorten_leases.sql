-- Shortens leases and waits that were written while the server's clock was ahead, in queues that nobody
-- uses at this moment. Receipts stay valid.
-- Locks: each queue's cursor lock and, shared, its subscription's, tried only.
-- Cost: one lookup for each queue, and a cursor version where there is something to mend.
create function mqpg._shorten_leases(by interval) returns void
language plpgsql as $$
declare
    v_queue record;
    v_cursor mqpg.cursor;
begin
    for v_queue in
        select s.subscription_id, q.queue_id
        from mqpg.subscription s
        join mqpg.topic t on t.topic_id = s.topic_id
        cross join lateral generate_series(-1, t.queues - 1) as q(queue_id)
        cross join lateral mqpg._newest_cursor(s.subscription_id, q.queue_id) as k
        where k.at > clock_timestamp() and k.claims <> '{}'
    loop
        continue when not pg_try_advisory_xact_lock_shared(1836150843, v_queue.subscription_id)
            or not pg_try_advisory_xact_lock(
                1836150833, v_queue.subscription_id * 1024 + v_queue.queue_id + 1);
        v_cursor := mqpg._cursor(v_queue.subscription_id, v_queue.queue_id);
        for v_i in 1..cardinality(v_cursor.claims) loop
            v_cursor.claims[v_i].lease_until := v_cursor.claims[v_i].lease_until - _shorten_leases.by;
        end loop;
        perform mqpg._write_cursor(
            v_cursor, mqpg._action('extend'), null, v_cursor.claimed, v_cursor.owner, v_cursor.claims);
    end loop;
end
$$;
