-- What subscriptions still need of a tick segment, one row for each queue (-1: the retry lane):
-- their position, and where their part of the segment begins and ends. The own row of a broadcast
-- group does not count, because it reads nothing.
-- Locks: none. Cost: three index lookups for each queue of each subscription.
create function mqpg._undelivered(from_tick bigint, to_tick bigint) returns table (
    subscription_id int, consumer_group text, member text, topic_id int, topic text, queue_id int,
    committed bigint, first_offset bigint, next_offset bigint
)
language sql stable as $$
    select s.subscription_id, s.consumer_group, s.member, t.topic_id, t.name, q.queue_id, k.committed,
        b.base_offset, p.next_offset
    from mqpg.subscription s
    join mqpg.topic t on t.topic_id = s.topic_id
    cross join lateral generate_series(-1, t.queues - 1) as q(queue_id)
    cross join lateral (
        select c.base_offset + c.n as next_offset from mqpg.consume_queue c
        where c.topic_id = s.topic_id and c.queue_id = q.queue_id
            and c.subscription_id = case when q.queue_id = -1 then s.subscription_id else 0 end
            and c.tick_id >= _undelivered.from_tick and c.tick_id < _undelivered.to_tick
        order by c.base_offset desc limit 1
    ) as p
    cross join lateral (
        select c.base_offset from mqpg.consume_queue c
        where c.topic_id = s.topic_id and c.queue_id = q.queue_id
            and c.subscription_id = case when q.queue_id = -1 then s.subscription_id else 0 end
            and c.tick_id >= _undelivered.from_tick and c.tick_id < _undelivered.to_tick
        order by c.base_offset limit 1
    ) as b
    cross join lateral mqpg._newest_cursor(s.subscription_id, q.queue_id) as k
    where k.committed < p.next_offset and (s.mode <> 'broadcast' or s.member <> '')
$$;
