-- Messages that were appended after a message of their topic with a greater id, because their
-- transaction committed later. distance: the record batches between the two.
with newest as (
    select e.topic, e.tick_id, max(e.message_id) as message_id
    from entry as e
    where e.lane = 0
    group by 1, 2
),

earlier as (
    select
        n.topic, n.tick_id,
        max(n.message_id) over (
            partition by n.topic order by n.tick_id rows between unbounded preceding and 1 preceding
        ) as message_id
    from newest as n
)

select
    e.topic,
    count(*) as messages,
    max((b.message_id >> 10) - (e.message_id >> 10)) as most_batches
from entry as e
join earlier as b on b.topic = e.topic and b.tick_id = e.tick_id
where e.lane = 0 and e.state = 'committed' and e.due_at is null and e.message_id >> 10 < b.message_id >> 10
group by 1
