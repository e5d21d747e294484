-- How long each step took, in seconds. consumer_group is null for steps without a group.
with queued_at as (
    select e.topic, k.at, greatest(e.committed_at, e.due_at) as committed_at
    from entry as e
    join tick as k on k.tick_id = e.tick_id
    where e.lane = 0 and e.state = 'committed'
),

applied_at as (
    select d.consumer_group, d.topic, k.at, greatest(d.committed_at, d.due_at) as committed_at, d.applied_at
    from delivery as d
    join tick as k on k.tick_id = d.tick_id
    where d.lane = 0 and d.state = 'committed' and d.applied_at is not null
),

step (step, consumer_group, topic, seconds) as (
    select 'prepare to decision', null::text, t.topic, extract(epoch from m.decided_at - m.born_at)::float8
    from message as m
    join topic as t on t.topic_id = m.topic_id
    where m.kind = 'h' and m.state in ('committed', 'relayed')
    union all
    select 'commit to queue', null, q.topic, extract(epoch from q.at - q.committed_at)::float8
    from queued_at as q
    union all
    select 'queue to effect', a.consumer_group, a.topic, extract(epoch from a.applied_at - a.at)::float8
    from applied_at as a
    union all
    select 'commit to effect', a.consumer_group, a.topic, extract(epoch from a.applied_at - a.committed_at)::float8
    from applied_at as a
)

select
    s.step, s.consumer_group, s.topic,
    count(*) as messages,
    percentile_cont(0.5) within group (order by s.seconds) as p50,
    percentile_cont(0.95) within group (order by s.seconds) as p95,
    percentile_cont(0.99) within group (order by s.seconds) as p99,
    max(s.seconds) as max
from step as s
group by 1, 2, 3
