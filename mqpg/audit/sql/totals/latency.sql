-- How long each step took, in seconds. consumer_group is null for steps without a group.
-- The steps are in the order by which they are sorted, which saves the sort.
with applied_at as (
    select d.consumer_group, d.topic, k.at, greatest(d.committed_at, d.due_at) as committed_at, d.applied_at
    from delivery as d
    join tick as k on k.tick_id = d.tick_id
    where d.lane = 0 and d.state = 'committed' and d.applied_at is not null
),

step (step, consumer_group, topic, seconds) as (
    select 'commit to effect', a.consumer_group, a.topic, date_part('epoch', a.applied_at - a.committed_at)
    from applied_at as a
    union all
    select 'commit to queue', null, e.topic, date_part('epoch', k.at - greatest(e.committed_at, e.due_at))
    from entry as e
    join tick as k on k.tick_id = e.tick_id
    where e.lane = 0 and e.state = 'committed'
    union all
    select 'prepare to decision', null, t.topic, date_part('epoch', m.decided_at - m.born_at)
    from message as m
    join topic as t on t.topic_id = m.topic_id
    where m.kind = 'h' and m.state in ('committed', 'relayed')
    union all
    select 'queue to effect', a.consumer_group, a.topic, date_part('epoch', a.applied_at - a.at)
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
