-- The subscriptions that have not yet done with a tick segment, one line for each queue.
-- A broadcast group's own row only says where new members begin: it needs nothing.
-- Locks: none. Cost: two index lookups for each queue of each subscription.
create function mqpg._undelivered(from_tick bigint, to_tick bigint) returns setof text
language sql stable as $$
    select format('%s has %s %s at %s of %s', s.consumer_group, t.name,
        case when q.queue_id = -1 then 'retries' else 'queue ' || q.queue_id end, k.committed, p.tail)
    from mqpg.subscription s
    join mqpg.topic t on t.topic_id = s.topic_id
    cross join lateral generate_series(-1, t.queues - 1) as q(queue_id)
    cross join lateral (
        select c.base_offset + c.n as tail from mqpg.consume_queue c
        where c.topic_id = s.topic_id and c.queue_id = q.queue_id
            and c.subscription_id = case when q.queue_id = -1 then s.subscription_id else 0 end
            and c.tick_id >= _undelivered.from_tick and c.tick_id < _undelivered.to_tick
        order by c.base_offset desc limit 1
    ) as p
    cross join lateral (
        select c.committed from mqpg.cursor c
        where c.subscription_id = s.subscription_id and c.queue_id = q.queue_id
        order by c.version desc limit 1
    ) as k
    where k.committed < p.tail and (s.mode <> 'broadcast' or s.member <> '')
$$;
comment on function mqpg._undelivered(bigint, bigint) is 'Internal: what subscriptions still need of a tick segment';
