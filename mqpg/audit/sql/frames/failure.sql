-- The messages whose delivery failed, by a nack, the end of a lease, or expiry. A message may have
-- several rows.
with released as (
    select
        t.subscription_id,
        t.topic_id,
        t.queue_id,
        case when t.queue_id < 0 then t.subscription_id else 0 end as lane,
        t.version,
        t.action,
        t.previous_claims,
        t.claims,
        t.previous_claimed,
        t.claimed
    from transition as t
    where t.step = 'next' and t.action in ('n', 'd', 't', 'x') and t.done > 0
),

pending as (
    select r.subscription_id, r.queue_id, r.version, true as before, o.o as queue_offset
    from released as r
    cross join lateral generate_series(r.previous_claimed, r.claimed - 1) as o (o)
    union all
    select r.subscription_id, r.queue_id, r.version, true, o.o
    from released as r
    cross join lateral unnest(r.previous_claims) as c
    cross join lateral (
        select p.o from unnest(c.picked) as p (o)
        union all
        select s.o from generate_series(c.from_offset, c.to_offset - 1) as s (o)
        where c.picked is null and s.o <> all(coalesce(c.settled, '{}'))
    ) as o
    union all
    select r.subscription_id, r.queue_id, r.version, false, o.o
    from released as r
    cross join lateral unnest(r.claims) as c
    cross join lateral (
        select p.o from unnest(c.picked) as p (o)
        union all
        select s.o from generate_series(c.from_offset, c.to_offset - 1) as s (o)
        where c.picked is null and s.o <> all(coalesce(c.settled, '{}'))
    ) as o
)

select distinct r.subscription_id, e.message_id, r.action
from (
    select p.subscription_id, p.queue_id, p.version, p.queue_offset
    from pending as p
    group by 1, 2, 3, 4
    having bool_and(p.before)
) as f
join released as r on r.subscription_id = f.subscription_id and r.queue_id = f.queue_id and r.version = f.version
join entry as e
    on e.topic_id = r.topic_id
    and e.lane = r.lane
    and e.queue_id = r.queue_id
    and e.queue_offset = f.queue_offset
