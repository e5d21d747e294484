-- The messages that each subscription nacked, with the highest attempt that was scheduled. A
-- message that a group deferred in its own database counts too, because the group nacks it only
-- after its local transaction.
-- last_offset: the offset of the last delivery in the retry lane. Null where another one is to come,
-- or a purge of the topic has discarded it. A redriven message counts its attempts from 1 again, so
-- the attempt alone does not tell. missing: a retry was scheduled, and the part of the lane that is
-- read does not have it.
with step as (
    select
        r.subscription_id,
        r.message_id,
        r.attempt,
        max(r.queue_offset) as queue_offset,
        bool_or(r.coming) as coming,
        bool_or(r.purged) as purged,
        sum(r.surplus) > 0 as missing
    from (
        select
            d.subscription_id,
            d.first_id + i.i as message_id,
            d.attempt,
            null::bigint as queue_offset,
            not (d.due and d.covered) as coming,
            coalesce(d.written_at < s.retries_from, false) as purged,
            case when d.may_be_dropped then 0 else 1 end as surplus
        from delayed as d
        left join reader as s on s.subscription_id = d.subscription_id
        cross join lateral generate_series(0, d.n - 1) as i (i)
        where d.subscription_id > 0
        union all
        select e.lane, e.message_id, e.attempt, e.queue_offset, false, false, -1
        from entry as e
        where e.lane > 0
        union all
        select s.subscription_id, f.message_id, 1, null, false, false, 0
        from deferred as f
        join topic as t on t.topic = f.topic
        join subscription as s on s.topic_id = t.topic_id and s.consumer_group = f.consumer_group
    ) as r
    group by 1, 2, 3
),

message_steps as (
    select
        s.subscription_id,
        s.message_id,
        max(s.attempt) as attempt,
        max(s.attempt) filter (where s.missing) as missing_attempt,
        (array_agg(s.attempt order by s.queue_offset desc nulls last))[1] as last_attempt,
        max(s.queue_offset) as last_offset,
        bool_or(s.coming or (s.purged and s.missing)) as continues
    from step as s
    group by 1, 2
)

select
    m.subscription_id,
    m.message_id,
    m.attempt,
    case
        when not m.continues and coalesce(m.missing_attempt <= m.last_attempt, true) then m.last_offset
    end as last_offset
from message_steps as m
