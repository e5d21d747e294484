-- How many messages were committed, queued and applied in each interval of so many seconds, and how
-- long after its commit each was. owed: what the appender gave a group that has to apply it.
-- consumer_group is null for steps without a group. at: in seconds since 1970.
with width (seconds) as (
    select %s::int as seconds
),

ticked as (
    select
        k.tick_id, k.at,
        floor(date_part('epoch', k.at - timestamptz '1970-01-01 00:00:00 UTC') / w.seconds) as nth
    from tick as k
    cross join width as w
),

-- The appender gave a group few ticks with many messages each.
owed as (
    select d.consumer_group, d.tick_id, count(*) as messages
    from delivery as d
    where d.lane = 0 and d.state = 'committed' and not d.dead
    group by 1, 2
)

select
    s.step, s.consumer_group, (s.nth * w.seconds)::bigint as at, s.messages,
    s.percentiles[1] as p50,
    s.percentiles[2] as p99
from (
    select
        'queued' as step,
        null::text as consumer_group,
        q.nth,
        count(*) as messages,
        percentile_cont(array[0.5, 0.99]) within group (order by q.seconds) as percentiles
    from (
        select k.nth, date_part('epoch', k.at - greatest(e.committed_at, e.due_at)) as seconds
        from entry as e
        left join ticked as k on k.tick_id = e.tick_id
        where e.lane = 0 and e.state = 'committed'
    ) as q
    group by q.nth
    union all
    select 'committed', null, c.nth, count(*), null
    from (
        select
            floor(
                date_part('epoch', greatest(e.committed_at, e.due_at) - timestamptz '1970-01-01 00:00:00 UTC')
                / (select w.seconds from width as w)
            ) as nth
        from entry as e
        where e.lane = 0 and e.state = 'committed'
    ) as c
    group by c.nth
    union all
    select 'owed', o.consumer_group, k.nth, sum(o.messages)::bigint, null
    from owed as o
    left join ticked as k on k.tick_id = o.tick_id
    group by o.consumer_group, k.nth
    union all
    select
        'applied', a.consumer_group, a.nth, count(*),
        percentile_cont(array[0.5, 0.99]) within group (order by a.seconds)
    from (
        select
            d.consumer_group,
            floor(
                date_part('epoch', d.applied_at - timestamptz '1970-01-01 00:00:00 UTC')
                / (select w.seconds from width as w)
            ) as nth,
            date_part('epoch', d.applied_at - greatest(d.committed_at, d.due_at)) as seconds
        from delivery as d
        where d.lane = 0 and d.state = 'committed' and not d.dead
    ) as a
    group by a.nth, a.consumer_group
) as s
cross join width as w
where s.nth is not null
order by 1, 2 nulls first, 3
