-- disorder: offsets, order numbers or effects in another order than the commits.
with several as (
    select r.message_id from repeated as r
),

neighbour as (
    select
        e.topic_id, e.queue_id, e.queue_offset, e.tick_id, e.message_id, e.place,
        lag(e.place) over within_tick as place_before,
        lag(e.message_id) over within_tick as message_before
    from entry as e
    where e.lane = 0 and e.state = 'committed' and e.place is not null
        and not exists (select from several as r where r.message_id = e.message_id)
    window within_tick as (partition by e.topic_id, e.queue_id, e.tick_id order by e.queue_offset)
),

-- Calls of one transaction follow one another. Those of two transactions may overlap. Transaction
-- ids up to 2 stand for rows of another cluster.
call as (
    select
        c.topic_id, c.message_id, c.order_no,
        lag(c.order_no) over (partition by c.xid order by c.at) as order_before
    from (
        select
            d.xid, d.at,
            min(d.order_no) as order_no,
            min(d.message_id) as message_id,
            min(d.topic_id) as topic_id
        from decision as d
        where d.stage = 0 and d.xid > '2'
        group by 1, 2
    ) as c
),

-- The newest version of a cursor that acknowledged an offset ahead of others.
ahead as (
    select l.subscription_id, l.queue_id, l.queue_offset, max(l.version) as version
    from released as l
    where l.action = 'ack' and l.ahead
    group by 1, 2, 3
),

-- How often the clock had gone back before an offset was delivered.
turned as (
    select e.owner_id, e.queue_id, e.queue_offset, count(distinct c.high_offset) as turns
    from effect as e
    join clock_turn as c
        on c.subscription_id = e.owner_id and c.queue_id = e.queue_id and c.high_offset <= e.queue_offset
    group by 1, 2, 3
),

-- Several consumers read a queue at once in mode shared, and each member of a broadcast reads it. A
-- retry comes later than what was behind it. So does a message that a consumer left pending while it
-- acknowledged those behind it. What was acknowledged so at once was still to be applied in order.
-- An effect before its commit is early. Where the clock went back, only effects between two such
-- moments are compared, because the versions of the cursor prove the order of the others. In mode
-- shared no order is kept.
ordered as (
    select
        e.consumer_group, e.topic, e.owner_id, e.queue_id, e.queue_offset, e.message_id,
        e.applied_at,
        case when not q.by_queue then e.key_hash end as key_hash,
        coalesce(c.turns, 0) as turns,
        q.by_queue,
        a.version as ahead_in
    from effect as e
    join reader as r on r.subscription_id = e.owner_id
    join journal_group as g on g.consumer_group = e.consumer_group
    join known_since as k on k.subscription_id = e.owner_id and k.queue_id = e.queue_id
    cross join lateral (
        select r.on_failure = 'block_queue' and e.applied_at > r.failures_from as by_queue
    ) as q
    left join turned as c on c.owner_id = e.owner_id and c.queue_id = e.queue_id and c.queue_offset = e.queue_offset
    left join ahead as a
        on a.subscription_id = e.owner_id and a.queue_id = e.queue_id and a.queue_offset = e.queue_offset
    where r.mode in ('exclusive', 'pinned')
        and e.queue_id >= 0
        and e.state = 'committed'
        and (q.by_queue or e.key_hash is not null)
        and (k.known_since is null or e.applied_at > k.known_since)
        and (r.single_from is null or e.applied_at > r.single_from)
        and date_part('epoch', greatest(e.committed_at, e.due_at) - e.applied_at) <= g.tolerance
        and not exists (
            select from reapplied as d where d.owner_id = e.owner_id and d.message_id = e.message_id
        )
        and not exists (
            select from replay as p
            where p.subscription_id = e.owner_id and p.message_id = e.message_id
        )
        and not exists (
            select from clock_turn as c
            where c.subscription_id = e.owner_id
                and c.queue_id = e.queue_id
                and e.queue_offset >= c.low_offset
                and e.queue_offset < c.high_offset
        )
),

later as (
    select
        o.*,
        max(o.applied_at) over (
            partition by o.owner_id, o.queue_id, o.by_queue, o.key_hash, o.ahead_in, o.turns
            order by o.queue_offset
            rows between unbounded preceding and 1 preceding
        ) as newest
    from ordered as o
)

select
    null as consumer_group, t.topic, n.queue_id, n.queue_offset, n.message_id,
    format(
        'behind message %s, which was committed later in the order of tick %s', n.message_before, n.tick_id
    ) as evidence
from neighbour as n
join topic as t on t.topic_id = n.topic_id
where n.place < n.place_before or (n.place = n.place_before and n.message_id < n.message_before)
union all
select
    null, m.topic, m.queue_id, m.queue_offset, m.message_id,
    format('appended by tick %s, although the tick before had seen its commit, and reached its time', m.tick_id)
from mistimed as m
where m.late and not exists (select from several as r where r.message_id = m.message_id)
union all
select
    null, t.topic, null, null, c.message_id,
    format('decided by order number %s after %s in one transaction', c.order_no, c.order_before)
from call as c
join topic as t on t.topic_id = c.topic_id
where c.order_no < c.order_before
union all
-- Record batches and calls that decide draw their numbers from one sequence.
select null, t.topic, null, null, d.message_id, format('decided by order number %s, before it was stored', d.order_no)
from decision as d
join topic as t on t.topic_id = d.topic_id
where d.order_no <= d.message_id >> 10
union all
select
    null, t.topic, null, null, d.message_id,
    format('decided by order number %s, which another transaction drew', d.order_no)
from decision as d
join (
    select b.batch_id as drawn, b.xid from body as b
    union all
    select distinct o.order_no, o.xid from decision as o
) as w on w.drawn = d.order_no and w.xid <> d.xid
join topic as t on t.topic_id = d.topic_id
where d.xid > '2' and w.xid > '2'
union all
select
    l.consumer_group, l.topic, l.queue_id, l.queue_offset, l.message_id,
    format(
        'applied before a message %s with a lower offset',
        case when l.by_queue then 'of the queue' else 'of its key' end
    )
from later as l
where l.newest > l.applied_at
