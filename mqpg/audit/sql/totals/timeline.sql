-- How many messages were committed, queued and applied in each interval of so many seconds, and how
-- long after its commit each was. owed: what the appender gave a group that has to apply it.
-- consumer_group is null for steps without a group. at: in seconds since 1970.
with width (seconds) as (
    select %s::int as seconds
),

moment (step, consumer_group, at, seconds) as (
    select 'committed', null::text, greatest(e.committed_at, e.due_at), null::float8
    from entry as e
    where e.lane = 0 and e.state = 'committed'
    union all
    select 'queued', null, k.at, extract(epoch from k.at - greatest(e.committed_at, e.due_at))::float8
    from entry as e
    join tick as k on k.tick_id = e.tick_id
    where e.lane = 0 and e.state = 'committed'
    union all
    select 'owed', d.consumer_group, k.at, null
    from delivery as d
    join tick as k on k.tick_id = d.tick_id
    where d.lane = 0 and d.state = 'committed' and not d.dead
    union all
    select
        'applied', d.consumer_group, d.applied_at,
        extract(epoch from d.applied_at - greatest(d.committed_at, d.due_at))::float8
    from delivery as d
    where d.lane = 0 and d.state = 'committed' and not d.dead and d.applied_at is not null
)

select
    m.step, m.consumer_group,
    (floor(extract(epoch from m.at - timestamptz '1970-01-01 00:00:00 UTC') / w.seconds) * w.seconds)::bigint as at,
    count(*) as messages,
    percentile_cont(0.5) within group (order by m.seconds) as p50,
    percentile_cont(0.99) within group (order by m.seconds) as p99
from moment as m
cross join width as w
where m.at is not null
group by 1, 2, 3
order by 1, 2 nulls first, 3
