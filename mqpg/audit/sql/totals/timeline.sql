-- How many messages were committed, queued and applied in each interval of so many seconds, and how
-- long after its commit each was. owed: what the appender gave a group that has to apply it.
-- consumer_group is null for steps without a group. at: in seconds since 1970.
with width (seconds) as (
    select %s::int as seconds
),

queued_at as (
    select
        floor(date_part('epoch', c.at - timestamptz '1970-01-01 00:00:00 UTC') / w.seconds) as committed_in,
        floor(date_part('epoch', k.at - timestamptz '1970-01-01 00:00:00 UTC') / w.seconds) as queued_in,
        date_part('epoch', k.at - c.at) as seconds
    from entry as e
    left join tick as k on k.tick_id = e.tick_id
    cross join lateral (select greatest(e.committed_at, e.due_at) as at) as c
    cross join width as w
    where e.lane = 0 and e.state = 'committed'
),

applied_at as (
    select
        d.consumer_group,
        floor(date_part('epoch', k.at - timestamptz '1970-01-01 00:00:00 UTC') / w.seconds) as owed_in,
        floor(date_part('epoch', d.applied_at - timestamptz '1970-01-01 00:00:00 UTC') / w.seconds) as applied_in,
        date_part('epoch', d.applied_at - greatest(d.committed_at, d.due_at)) as seconds
    from delivery as d
    left join tick as k on k.tick_id = d.tick_id
    cross join width as w
    where d.lane = 0 and d.state = 'committed' and not d.dead
)

select s.step, s.consumer_group, (s.nth * w.seconds)::bigint as at, s.messages, s.p50, s.p99
from (
    select
        'committed' as step,
        null::text as consumer_group,
        q.committed_in as nth,
        count(*) as messages,
        null::float8 as p50,
        null::float8 as p99
    from queued_at as q
    group by q.committed_in
    union all
    select
        'queued', null, q.queued_in, count(*),
        percentile_cont(0.5) within group (order by q.seconds),
        percentile_cont(0.99) within group (order by q.seconds)
    from queued_at as q
    group by q.queued_in
    union all
    select 'owed', a.consumer_group, a.owed_in, count(*), null, null
    from applied_at as a
    group by a.consumer_group, a.owed_in
    union all
    select
        'applied', a.consumer_group, a.applied_in, count(*),
        percentile_cont(0.5) within group (order by a.seconds),
        percentile_cont(0.99) within group (order by a.seconds)
    from applied_at as a
    group by a.consumer_group, a.applied_in
) as s
cross join width as w
where s.nth is not null
order by 1, 2 nulls first, 3
