-- The ranges of stored offsets that a version let go (freed), or took back to deliver them again.
with clipped as (
    select
        p.subscription_id, o.topic_id, o.lane, p.queue_id, p.version, p.before, p.held, p.settled, p.picked,
        greatest(p.from_offset, b.low) as from_offset,
        least(p.to_offset, b.high) as to_offset
    from piece as p
    join origin as o on o.subscription_id = p.subscription_id and o.queue_id = p.queue_id
    join bound as b on b.topic_id = o.topic_id and b.lane = o.lane and b.queue_id = o.queue_id
),

-- Versions whose pieces may have offsets in common are compared offset by offset.
mixed as (
    select c.subscription_id, c.queue_id, c.version
    from clipped as c
    group by 1, 2, 3
    having count(*) > 1 or bool_or(c.settled is not null or c.picked is not null)
),

single as (
    select c.subscription_id, c.topic_id, c.lane, c.queue_id, c.version, c.before, c.held, o.o as queue_offset
    from clipped as c
    join mixed as m on m.subscription_id = c.subscription_id and m.queue_id = c.queue_id and m.version = c.version
    cross join lateral unnest(c.picked) as o (o)
    where o.o >= c.from_offset and o.o < c.to_offset
    union all
    select c.subscription_id, c.topic_id, c.lane, c.queue_id, c.version, c.before, c.held, o.o as queue_offset
    from clipped as c
    join mixed as m on m.subscription_id = c.subscription_id and m.queue_id = c.queue_id and m.version = c.version
    cross join lateral generate_series(c.from_offset, c.to_offset - 1) as o (o)
    where c.picked is null and not coalesce(o.o = any(c.settled), false)
),

compared as (
    select
        s.subscription_id, s.topic_id, s.lane, s.queue_id, s.version, s.queue_offset,
        bool_or(s.before) as freed,
        bool_or(s.before and s.held) as held
    from single as s
    group by 1, 2, 3, 4, 5, 6
    having bool_or(s.before) <> bool_or(not s.before)
)

select
    r.subscription_id, r.topic_id, r.lane, r.queue_id, r.version, s.action, s.at, r.from_offset, r.to_offset, r.freed,
    r.held
from (
    select
        c.subscription_id, c.topic_id, c.lane, c.queue_id, c.version, c.from_offset, c.to_offset, c.before as freed,
        c.held
    from clipped as c
    where c.from_offset < c.to_offset and not exists (
        select from mixed as m
        where m.subscription_id = c.subscription_id and m.queue_id = c.queue_id and m.version = c.version
    )
    union all
    select
        c.subscription_id, c.topic_id, c.lane, c.queue_id, c.version, c.queue_offset, c.queue_offset + 1, c.freed,
        c.held
    from compared as c
) as r
join step as s
    on s.subscription_id = r.subscription_id and s.queue_id = r.queue_id and s.version = r.version and s.follows
