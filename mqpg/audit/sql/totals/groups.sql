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

again as (
    select r.message_id from reapplied as r
),

-- Most messages have one row each.
applied as not materialized (
    select
        e.owner_id, e.message_id, e.consumer_group, e.topic,
        e.state = 'expired' or coalesce(e.may_be_dropped, false) as may_be_dropped,
        1 as times
    from effect as e
    where e.state <> 'topic_dropped'
        and not exists (select from again as r where r.message_id = e.message_id)
    union all
    select
        e.owner_id, e.message_id, e.consumer_group, e.topic,
        bool_or(e.state = 'expired' or coalesce(e.may_be_dropped, false)),
        count(*)
    from effect as e
    where e.state <> 'topic_dropped'
        and exists (select from again as r where r.message_id = e.message_id)
    group by 1, 2, 3, 4
),

journal as (
    select c.consumer_group, c.topic, count(*) as applied, sum(c.times)::bigint as journal_rows
    from (
        select a.consumer_group, a.topic, a.times
        from applied as a
        where exists (
            select from delivery as d
            where d.subscription_id = a.owner_id and d.message_id = a.message_id and d.lane = 0 and not d.unjudged
        )
        union all
        select a.consumer_group, a.topic, a.times
        from applied as a
        join unqueued as n on n.message_id = a.message_id
        where not a.may_be_dropped
    ) as c
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
