-- What each subscription has not finished, one row for each message: the offsets from its position
-- on that were not acknowledged, and its retries that are not due yet. A message that is committed
-- and in no queue yet is not here, and neither is a delayed message before its time. Both are for
-- every group: see tick and delayed.
-- Cost: as current_position, and then one row for each unfinished offset. The lag decides, not the
-- history. An offset among claims is looked for in each open claim of its queue, which are 64 at
-- most.
create view mqpg_audit.pending as
select s.subscription_id, s.consumer_group, nullif(s.member, '') as consumer, s.topic_id, t.name as topic, p.queue_id,
    p.queue_offset, p.message_id, p.message_id >> 10 as batch_id, p.state, p.deliveries, p.holder, p.lease_until,
    p.due_at
from mqpg.subscription as s
inner join mqpg.topic as t on s.topic_id = t.topic_id
cross join lateral (
    select q.queue_id, e.base_offset + r.first + i.i as queue_offset, r.first_id + i.i as message_id,
        case when k.epoch > 0 then 'in_flight' when k.epoch < 0 then 'returned' else 'waiting' end as state,
        coalesce(r.attempt, 1) - 1 + coalesce(k.attempt, 0) as deliveries,
        case when k.epoch > 0 then k.consumer end as holder,
        case when k.epoch > 0 then k.lease_until end as lease_until,
        case when k.epoch < 0 then nullif(k.lease_until, '-infinity') end as due_at
    from generate_series(-1, t.queues - 1) as q (queue_id)
    cross join lateral (
        select v.committed, v.claimed, v.claims
        from mqpg.cursor as v
        where v.subscription_id = s.subscription_id and v.queue_id = q.queue_id
        order by v.version desc
        limit 1
    ) as c
    -- A row of a queue has 4096 offsets at most. ORDER BY: looked up in the index for each queue.
    cross join lateral (
        select l.base_offset, l.n, l.first_ids, l.starts, l.attempts
        from mqpg.consume_queue as l
        where l.topic_id = s.topic_id and l.queue_id = q.queue_id
            and l.subscription_id = case when q.queue_id = -1 then s.subscription_id else 0 end
            and l.base_offset > c.committed - 8192 and l.base_offset + l.n > c.committed
        order by l.base_offset
    ) as e
    cross join lateral unnest(e.first_ids, e.starts, e.starts[2:] || e.n, e.attempts)
        as r (first_id, first, after_last, attempt)
    cross join lateral generate_series(0, r.after_last - r.first - 1) as i (i)
    left join lateral (
        select u.epoch, u.attempt, u.consumer, u.lease_until
        from unnest(c.claims) as u
        where u.from_offset <= e.base_offset + r.first + i.i and u.to_offset > e.base_offset + r.first + i.i
            and (u.settled is null or e.base_offset + r.first + i.i <> all(u.settled))
            and (u.picked is null or e.base_offset + r.first + i.i = any(u.picked))
        order by u.epoch desc
        limit 1
    ) as k on true
    where e.base_offset + r.first + i.i >= c.committed
        and (e.base_offset + r.first + i.i >= c.claimed or k.epoch is not null)
    union all
    select -1 as queue_id, null as queue_offset, d.first_id + i.i as message_id, 'retry' as state,
        d.attempt - 1 as deliveries, null as holder, null as lease_until, d.visible_at as due_at
    from (
        select n.due_until, n.snapshot
        from mqpg.tick as n
        order by n.tick_id desc
        limit 1
    ) as k
    -- The first condition uses indexes, the second one is exact.
    inner join mqpg.delayed as d
        on (k.due_until < d.visible_at or pg_snapshot_xmin(k.snapshot) <= d.xid)
            and not (k.due_until >= d.visible_at and pg_visible_in_snapshot(d.xid, k.snapshot))
    cross join lateral generate_series(0, d.n - 1) as i (i)
    where d.subscription_id = s.subscription_id and d.written_at >= s.retries_from
) as p
where s.mode <> 'broadcast' or s.member <> '';
-- subscription_id: Id of the subscription
-- consumer_group: Name of the consumer group
-- consumer: Mode broadcast: the member of the group; else null
-- topic_id: Id of the topic
-- topic: Name of the topic
-- queue_id: Queue of the topic, from 0; -1: the retry lane
-- queue_offset: Its offset in that queue or retry lane; null: a retry that is not in the lane yet
-- message_id: Id of the message
-- batch_id: message_id / 1024, to join with message
-- state: waiting (not delivered yet, also what a filter will leave out) | in_flight | returned (its delivery ended,
--     and it is offered again) | retry (failed, and not due yet)
-- deliveries: How often it was delivered so far, the present delivery included; releases and what was before
--     redrive() do not count
-- holder: In flight: the consumer that has it; else null
-- lease_until: In flight: until when the consumer has it; afterwards another one may take it; else null
-- due_at: Retry or returned: not offered before this time; null: at once, or another state
