-- The messages that each subscription nacked, with the highest attempt that was scheduled. A
-- message that a group deferred in its own database counts too, because the group nacks it only
-- after its local transaction.
-- last_offset: the offset of the last delivery in the retry lane. Null where another one was
-- scheduled behind it. A redriven message counts its attempts from 1 again, so they do not tell
-- which delivery is the last one.
with scheduled as (
    select
        d.subscription_id,
        d.message_id, d.attempt, d.visible_at, d.xid, d.may_be_dropped
    from delayed as d
    where d.subscription_id > 0
),

delivered as (
    select
        e.lane as subscription_id, e.message_id,
        max(e.attempt) as attempt,
        max(e.queue_offset) as last_offset,
        max(e.tick_id) as last_tick
    from entry as e
    where e.lane > 0
    group by 1, 2
),

-- The tick of the last delivery has not seen them, or not reached their time.
behind as (
    select distinct s.subscription_id, s.message_id
    from scheduled as s
    join delivered as d on d.subscription_id = s.subscription_id and d.message_id = s.message_id
    left join tick as t on t.tick_id = d.last_tick
    where not coalesce(
        s.visible_at <= t.due_until and pg_visible_in_snapshot(s.xid, t.snapshot), s.may_be_dropped
    )
),

attempts as (
    select s.subscription_id, s.message_id, s.attempt from scheduled as s
    union all
    select d.subscription_id, d.message_id, d.attempt from delivered as d
    union all
    select s.subscription_id, f.message_id, 1
    from deferred as f
    join topic as t on t.topic = f.topic
    join subscription as s on s.topic_id = t.topic_id and s.consumer_group = f.consumer_group
)

select
    a.subscription_id, a.message_id,
    max(a.attempt) as attempt,
    max(d.last_offset) filter (where b.message_id is null) as last_offset
from attempts as a
left join delivered as d on d.subscription_id = a.subscription_id and d.message_id = a.message_id
left join behind as b on b.subscription_id = a.subscription_id and b.message_id = a.message_id
group by 1, 2
