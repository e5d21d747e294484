-- duplicated: applied more than once, at two offsets, or two messages at one offset.
-- overlapping: the queues with two rows that may hold one offset.
with overlapping as (
    select distinct q.topic_id, q.lane, q.queue_id
    from (
        select
            r.topic_id, r.subscription_id as lane, r.queue_id, r.consistent, r.base_offset,
            max(r.base_offset + r.n) over (
                partition by r.topic_id, r.subscription_id, r.queue_id
                order by r.base_offset, r.tick_id
                rows between unbounded preceding and 1 preceding
            ) as reached
        from queue_row as r
    ) as q
    where not q.consistent or q.base_offset < q.reached
),

-- The record batches that are stored more than once. Each of their messages counts as often.
stored as (
    select b.first_id, max(b.n) as n, max(b.topic_id) as topic_id, max(b.queue_id) as queue_id, count(*) as times
    from body as b
    group by 1
    having count(*) > 1
)

select
    e.consumer_group, e.topic, e.queue_id, e.queue_offset, e.message_id,
    format('applied %s times', e.times) as evidence
from (
    select
        f.consumer_group, f.topic, f.subscription_id, f.message_id,
        count(*) as times,
        min(f.queue_id) as queue_id,
        min(f.queue_offset) as queue_offset
    from effect as f
    join reapplied as r on r.message_id = f.message_id and r.owner_id is not distinct from f.owner_id
    where not f.unattributed
    group by 1, 2, 3, 4
    having count(*) > 1
) as e
left join replay as r
    on r.subscription_id = e.subscription_id and r.message_id = e.message_id
where e.times > 1 + coalesce(r.times, 0)
    and not exists (select from stored as b where e.message_id >= b.first_id and e.message_id < b.first_id + b.n)
union all
select null, t.topic, b.queue_id, null, b.first_id, format('its record batch is stored %s times', b.times)
from stored as b
join topic as t on t.topic_id = b.topic_id
union all
select
    null, e.topic, null, null, e.message_id,
    'at queue:offset ' || string_agg(distinct e.queue_id || ':' || e.queue_offset, ', ')
from entry as e
join repeated as r on r.message_id = e.message_id
where e.lane = 0
group by e.topic, e.message_id
having count(distinct (e.queue_id, e.queue_offset)) > 1
union all
select
    null, t.topic, o.queue_id, o.queue_offset, o.message_id,
    format('offset held %s times, also by %s', o.times, o.other_id)
from (
    select
        e.topic_id, e.lane, e.queue_id, e.queue_offset,
        count(*) as times,
        count(distinct e.message_id) as messages,
        min(e.message_id) as message_id,
        max(e.message_id) as other_id
    from entry as e
    join overlapping as q on q.topic_id = e.topic_id and q.lane = e.lane and q.queue_id = e.queue_id
    group by 1, 2, 3, 4
    having count(*) > 1
) as o
join topic as t on t.topic_id = o.topic_id
-- A row that was moved over another one leaves a hole.
where o.times > o.messages or not exists (
    select from hole as h where h.topic_id = o.topic_id and h.lane = o.lane and h.queue_id = o.queue_id
)
union all
select
    null, t.topic, d.queue_id, null, d.message_id,
    format('the delayed messages have it %s times for %s', count(*), d.visible_at::text)
from delayed as d
join topic as t on t.topic_id = d.topic_id
where d.subscription_id = 0
group by t.topic, d.queue_id, d.message_id, d.visible_at
having count(*) > 1
