-- The offsets that a version of a cursor released: they were pending before, and are pending no
-- longer. ahead: an offset below it is still pending. Acknowledgments are listed only where
-- something is still pending, and only of queues that are read in order.
with released as (
    select
        t.subscription_id, t.topic_id, t.queue_id,
        case when t.queue_id < 0 then t.subscription_id else 0 end as lane,
        t.version, t.slot, t.action, t.previous_version, t.previous_slot, t.previous_claimed, t.claimed
    from transition as t
    where t.step = 'next'
        and t.done > 0
        and (
            t.action in ('nack', 'dead_letter', 'take_over', 'expired')
            or (t.action = 'ack' and t.committed < t.claimed and t.mode in ('exclusive', 'pinned'))
        )
),

-- The claims of the version and of the one before it.
holding as (
    select r.subscription_id, r.queue_id, r.version, true as before, c.from_offset, c.to_offset, c.settled, c.picked
    from released as r
    join claim as c
        on c.subscription_id = r.subscription_id
        and c.queue_id = r.queue_id
        and c.version = r.previous_version
        and c.slot = r.previous_slot
    union all
    select r.subscription_id, r.queue_id, r.version, false, c.from_offset, c.to_offset, c.settled, c.picked
    from released as r
    join claim as c using (subscription_id, queue_id, version, slot)
),

pending as (
    select r.subscription_id, r.queue_id, r.version, true as before, o.o as queue_offset
    from released as r
    cross join lateral generate_series(r.previous_claimed, r.claimed - 1) as o (o)
    union all
    select h.subscription_id, h.queue_id, h.version, h.before, o.o
    from holding as h
    cross join lateral unnest(h.picked) as o (o)
    union all
    select h.subscription_id, h.queue_id, h.version, h.before, o.o
    from holding as h
    cross join lateral generate_series(h.from_offset, h.to_offset - 1) as o (o)
    where h.picked is null and not coalesce(o.o = any(h.settled), false)
)

select
    r.subscription_id, r.topic_id, r.queue_id, r.lane, r.version, r.action, f.queue_offset,
    coalesce(f.queue_offset > f.first_pending, false) as ahead
from (
    select
        p.subscription_id, p.queue_id, p.version, p.queue_offset,
        bool_and(p.before) as gone,
        min(min(case when not p.before then p.queue_offset end)) over (
            partition by p.subscription_id, p.queue_id, p.version
        ) as first_pending
    from pending as p
    group by 1, 2, 3, 4
) as f
join released as r on r.subscription_id = f.subscription_id and r.queue_id = f.queue_id and r.version = f.version
where f.gone
