-- Lets a subscription not read the queues that alter_topic() added before it has read what their
-- keys had in older queues. It gives their cursors an owner that no consumer is (see the table
-- waiting_queue). Pinned queues with an owner, queues with open claims, and mode shared, which keeps
-- no order, are left out.
-- Locks: none; the caller holds the cursor locks. Cost: one index lookup; three for each added queue.
create function mqpg._await_older_queues(subscription mqpg.subscription) returns void
language plpgsql as $$
declare
    v_id int := (_await_older_queues.subscription).subscription_id;
    v_queue record;
    v_cursor mqpg.cursor;
    v_version bigint;
begin
    if (_await_older_queues.subscription).mode = 'shared' then
        return;
    end if;
    for v_queue in
        select q.queue_id, o.queue_id as older, g.boundaries[o.queue_id + 1] as boundary
        from mqpg.topic_growth g
        cross join lateral generate_series(g.queues_before, g.queues - 1) as q(queue_id)
        cross join lateral (select q.queue_id % g.queues_before as queue_id) as o
        where g.topic_id = (_await_older_queues.subscription).topic_id
        order by q.queue_id
    loop
        v_cursor := mqpg._cursor(v_id, v_queue.queue_id);
        continue when v_cursor.version is null or v_cursor.owner is not null or v_cursor.claims <> '{}'
            or (v_queue.boundary <= (mqpg._cursor(v_id, v_queue.older)).committed and not exists (
                select from mqpg.waiting_queue w where w.subscription_id = v_id and w.queue_id = v_queue.older));
        insert into mqpg.waiting_queue (subscription_id, queue_id) values (v_id, v_queue.queue_id);
        v_version := mqpg._write_cursor(
            v_cursor, mqpg._action('unpin'), null, v_cursor.claimed, format('(after queue %s)', v_queue.older), '{}');
    end loop;
end
$$;
