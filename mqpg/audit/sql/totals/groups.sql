-- The offsets of each group and topic, and what the group did with them. applied is counted in the
-- journal. Journal rows from before the group's start, and of messages that retention has dropped
-- since, are left out on both sides.
with sides as (
    select
        d.consumer_group, d.topic,
        count(*) as offsets,
        count(*) filter (where d.times_applied = 0 and d.dead) as dead,
        count(*) filter (where d.times_applied = 0 and not d.dead and d.retry_attempt is not null) as retrying,
        count(*) filter (
            where d.times_applied = 0 and not d.dead and d.retry_attempt is null and not d.behind_position
        ) as ahead
    from delivery as d
    where d.lane = 0 and not d.unjudged
    group by 1, 2
),

owed as (
    select distinct d.subscription_id, d.message_id
    from delivery as d
    where d.lane = 0 and not d.unjudged
),

applied as (
    select
        e.owner_id, e.message_id, e.consumer_group, e.topic,
        bool_or(e.state = 'expired' or coalesce(e.may_be_dropped, false)) as may_be_dropped,
        count(*) as times
    from effect as e
    where e.state <> 'topic_dropped'
    group by 1, 2, 3, 4
),

journal as (
    select a.consumer_group, a.topic, count(*) as applied, sum(a.times)::bigint as journal_rows
    from applied as a
    left join owed as o on o.subscription_id = a.owner_id and o.message_id = a.message_id
    left join queued as q on q.message_id = a.message_id
    where o.message_id is not null or (q.message_id is null and not a.may_be_dropped)
    group by 1, 2
)

select
    consumer_group, topic,
    coalesce(s.offsets, 0) as offsets,
    coalesce(s.dead, 0) as dead,
    coalesce(s.retrying, 0) as retrying,
    coalesce(s.ahead, 0) as ahead,
    coalesce(j.applied, 0) as applied,
    coalesce(j.journal_rows, 0) as journal_rows
from sides as s
full join journal as j using (consumer_group, topic)
