-- Lets subscriptions read the queues that alter_topic() added, when they have read the older messages
-- of their keys. For that it finds out behind which offsets of the older queues no message is that
-- was placed by the number of queues before. First all transactions end that ran when the queues had
-- been added, because they may place messages by that number. Then the half messages of that time
-- are decided; one that is overdue is not waited for, and comes later by its older queue, as delayed
-- messages do. At last a tick sees all that, or nothing is left to append.
-- Returns how many queues of subscriptions were opened, at most 100 in a call. The appender process
-- calls it every second, and keep() too.
-- Locks: the rows of the growth and of the queues that it opens, skipped if they are locked; the
-- cursor locks of these queues, tried only.
-- Cost: two index lookups; while a topic grows also the locks of the server, half_pending, and two
-- lookups for each queue that waits.
create function mqpg._open_queues() returns int
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_checked boolean := mqpg._require_privilege('worker');
    v_growth mqpg.topic_growth;
    v_tick mqpg.tick;
    v_queue record;
    v_cursor mqpg.cursor;
    v_version bigint;
    v_opened int := 0;
begin
    for v_growth in
        select g.* from mqpg.topic_growth g where g.boundaries is null order by g.topic_id, g.queues
        for update skip locked
    loop
        if v_growth.waits_for is distinct from '{}' then
            v_growth.waits_for := array(
                select r.id from mqpg._running_transactions() r(id)
                where v_growth.waits_for is null or r.id = any(v_growth.waits_for) or r.id like '-1/%');
        end if;
        if v_growth.waits_for = '{}' and v_growth.settled_batch is null then
            v_growth.settled_batch := nextval('mqpg.batch_id');
        end if;
        if v_growth.settled_xid is null and v_growth.settled_batch is not null and not exists (
            select from mqpg._half_pending() h
            join mqpg.topic t on t.name = h.topic
            where t.topic_id = v_growth.topic_id and h.check_at > clock_timestamp()
                and split_part(h.handle, '.', 3)::bigint < v_growth.settled_batch * 1024)
        then
            v_growth.settled_xid := pg_current_xact_id();
        end if;
        if v_growth.settled_xid is not null then
            select k.* into v_tick from mqpg.tick k order by k.tick_id desc limit 1;
            if pg_visible_in_snapshot(v_growth.settled_xid, v_tick.snapshot) or not (
                select n.sends or n.decisions or n.due
                from mqpg._what_is_new(v_tick, pg_current_snapshot(), v_tick.due_until) n)
            then
                v_growth.boundaries := array(
                    select mqpg._tail(v_growth.topic_id, q, 0)
                    from generate_series(0, v_growth.queues_before - 1) as q order by q);
            end if;
        end if;
        update mqpg.topic_growth g set
            waits_for = v_growth.waits_for, settled_batch = v_growth.settled_batch,
            settled_xid = v_growth.settled_xid, boundaries = v_growth.boundaries
        where g.topic_id = v_growth.topic_id and g.queues = v_growth.queues;
    end loop;
    for v_queue in
        select w.subscription_id, w.queue_id
        from mqpg.waiting_queue w
        join mqpg.subscription s on s.subscription_id = w.subscription_id
        join mqpg.topic_growth g on g.topic_id = s.topic_id and w.queue_id >= g.queues_before and w.queue_id < g.queues
        where not exists (
                select from mqpg.waiting_queue o
                where o.subscription_id = w.subscription_id and o.queue_id = w.queue_id % g.queues_before)
            and g.boundaries[w.queue_id % g.queues_before + 1]
            <= (mqpg._cursor(w.subscription_id, w.queue_id % g.queues_before)).committed
        order by w.since limit 100
        for update of w skip locked
    loop
        continue when not pg_try_advisory_xact_lock_shared(1836150843, v_queue.subscription_id)
            or not mqpg._lock_free_cursor(v_queue.subscription_id, v_queue.queue_id);
        v_cursor := mqpg._cursor(v_queue.subscription_id, v_queue.queue_id);
        v_version := mqpg._write_cursor(
            v_cursor, mqpg._action('unpin'), null, v_cursor.claimed, null, v_cursor.claims);
        delete from mqpg.waiting_queue w
        where w.subscription_id = v_queue.subscription_id and w.queue_id = v_queue.queue_id;
        v_opened := v_opened + 1;
    end loop;
    if v_opened > 0 then
        perform mqpg._notify('mqpg', (select max(k.tick_id)::text from mqpg.tick k));
    end if;
    return v_opened;
end
$$;
