-- How long each step took, in seconds. consumer_group is null for steps without a group.
with applied as (
    select
        d.consumer_group, d.topic,
        date_part('epoch', d.applied_at - greatest(d.committed_at, d.due_at)) as since_commit,
        date_part('epoch', d.applied_at - k.at) as since_queue
    from delivery as d
    join tick as k on k.tick_id = d.tick_id
    where d.lane = 0 and d.state = 'committed' and d.applied_at is not null
),

effects as (
    select
        a.consumer_group, a.topic,
        count(*) as messages,
        percentile_cont(0.5) within group (order by a.since_commit) as commit_p50,
        percentile_cont(0.95) within group (order by a.since_commit) as commit_p95,
        percentile_cont(0.99) within group (order by a.since_commit) as commit_p99,
        max(a.since_commit) as commit_max,
        percentile_cont(0.5) within group (order by a.since_queue) as queue_p50,
        percentile_cont(0.95) within group (order by a.since_queue) as queue_p95,
        percentile_cont(0.99) within group (order by a.since_queue) as queue_p99,
        max(a.since_queue) as queue_max
    from applied as a
    group by 1, 2
),

other (step, topic_id, seconds) as (
    select 1, e.topic_id, date_part('epoch', k.at - greatest(e.committed_at, e.due_at))
    from entry as e
    join tick as k on k.tick_id = e.tick_id
    where e.lane = 0 and e.state = 'committed'
    union all
    select 2, m.topic_id, date_part('epoch', m.decided_at - m.born_at)
    from message as m
    where m.kind = 'h' and m.state in ('committed', 'relayed')
)

select s.step, e.consumer_group, e.topic, e.messages, s.p50, s.p95, s.p99, s.max
from effects as e
cross join lateral (
    select
        'commit to effect' as step,
        e.commit_p50 as p50, e.commit_p95 as p95, e.commit_p99 as p99, e.commit_max as max
    union all
    select 'queue to effect', e.queue_p50, e.queue_p95, e.queue_p99, e.queue_max
) as s
union all
select case o.step when 1 then 'commit to queue' else 'prepare to decision' end, null, t.topic, o.messages, o.p50, o.p95, o.p99, o.max
from (
    select
        s.topic_id, s.step,
        count(*) as messages,
        percentile_cont(0.5) within group (order by s.seconds) as p50,
        percentile_cont(0.95) within group (order by s.seconds) as p95,
        percentile_cont(0.99) within group (order by s.seconds) as p99,
        max(s.seconds) as max
    from other as s
    group by 1, 2
) as o
join topic as t on t.topic_id = o.topic_id
