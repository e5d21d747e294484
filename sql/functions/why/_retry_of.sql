-- The newest retry of a message for a subscription, with its offset in the retry lane; offset null:
-- not appended yet, or no longer stored; purged: never to be appended. keep() may have dropped its row
-- while it is unread in the lane, which then is searched; the times are null. No row where it was never
-- retried, or where that is over so long ago.
-- Locks: none. Cost: a few index lookups; for a message that has no such row, the unread part of the lane.
create function mqpg._retry_of(subscription mqpg.subscription, message_id bigint) returns table (
    written_at timestamptz, visible_at timestamptz, attempt int, reason text, purged boolean, tick_id bigint,
    queue_offset bigint
)
language sql stable as $$
    select d.written_at, d.visible_at, d.attempt::int, d.reason,
        d.written_at < (_retry_of.subscription).retries_from and o.queue_offset is null, k.tick_id, o.queue_offset
    from (
        select r.* from mqpg.delayed r
        where r.first_id between _retry_of.message_id - 1023 and _retry_of.message_id
            and r.first_id + r.n > _retry_of.message_id
            and r.subscription_id = (_retry_of.subscription).subscription_id
        order by r.written_at desc, r.xid desc, r.attempt desc limit 1
    ) as d
    cross join lateral (select mqpg._tick_of_transaction(d.xid, d.visible_at)) as k(tick_id)
    cross join lateral (select mqpg._offset_in_tick(
        k.tick_id, d.topic_id, -1, d.subscription_id, _retry_of.message_id)) as o(queue_offset)
    union all
    select null, null, u.attempt::int, null, false, c.tick_id, c.base_offset + u.start + _retry_of.message_id - u.first_id
    from mqpg._newest_cursor((_retry_of.subscription).subscription_id, -1) as k
    join mqpg.consume_queue c on c.topic_id = (_retry_of.subscription).topic_id and c.queue_id = -1
        and c.subscription_id = k.subscription_id and c.base_offset >= coalesce((
            select b.base_offset from mqpg.consume_queue b
            where b.topic_id = (_retry_of.subscription).topic_id and b.queue_id = -1
                and b.subscription_id = k.subscription_id and b.base_offset <= k.committed
            order by b.base_offset desc limit 1), 0)
    cross join lateral unnest(c.first_ids, c.starts, c.attempts)
        with ordinality as u(first_id, start, attempt, i)
    where c.base_offset + u.start + _retry_of.message_id - u.first_id >= k.committed
        and _retry_of.message_id >= u.first_id
        and _retry_of.message_id < u.first_id + coalesce(c.starts[u.i + 1], c.n) - u.start
        and not exists (
            select from mqpg.delayed r
            where r.first_id between _retry_of.message_id - 1023 and _retry_of.message_id
                and r.first_id + r.n > _retry_of.message_id and r.subscription_id = k.subscription_id)
    limit 1
$$;
