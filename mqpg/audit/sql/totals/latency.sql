-- How long each step took, in seconds. consumer_group is null for steps without a group.
with taken (step, consumer_group, topic_id, seconds) as (
    select 1, d.consumer_group, d.topic_id, date_part('epoch', d.applied_at - greatest(d.committed_at, d.due_at))
    from delivery as d
    where d.lane = 0 and d.state = 'committed' and d.applied_at is not null
    union all
    select 2, d.consumer_group, d.topic_id, date_part('epoch', d.applied_at - k.at)
    from delivery as d
    join tick as k on k.tick_id = d.tick_id
    where d.lane = 0 and d.state = 'committed' and d.applied_at is not null
    union all
    select 3, null, e.topic_id, date_part('epoch', k.at - greatest(e.committed_at, e.due_at))
    from entry as e
    join tick as k on k.tick_id = e.tick_id
    where e.lane = 0 and e.state = 'committed'
    union all
    select 4, null, m.topic_id, date_part('epoch', m.decided_at - m.born_at)
    from message as m
    where m.kind = 'h' and m.state in ('committed', 'relayed')
)

select
    case s.step
        when 1 then 'commit to effect'
        when 2 then 'queue to effect'
        when 3 then 'commit to queue'
        else 'prepare to decision'
    end as step,
    s.consumer_group, t.topic, s.messages,
    s.percentiles[1] as p50,
    s.percentiles[2] as p95,
    s.percentiles[3] as p99,
    s.max
from (
    select
        s.step, s.consumer_group, s.topic_id,
        count(*) as messages,
        percentile_cont(array[0.5, 0.95, 0.99]) within group (order by s.seconds) as percentiles,
        max(s.seconds) as max
    from taken as s
    group by 1, 2, 3
) as s
join topic as t on t.topic_id = s.topic_id
