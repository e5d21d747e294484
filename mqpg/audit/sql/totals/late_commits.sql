-- Messages that were appended after a message of their topic with a greater id, because their
-- transaction committed later. distance: the record batches between the two.
with newest as (
    select q.topic_id, q.tick_id, min(q.first_id) as lowest_id, max(q.first_id + q.after_last - q.first - 1) as message_id
    from queue_run as q
    where q.subscription_id = 0 and q.first < q.after_last
    group by 1, 2
),

earlier as (
    select
        n.topic_id, n.tick_id, n.lowest_id,
        max(n.message_id) over (
            partition by n.topic_id order by n.tick_id rows between unbounded preceding and 1 preceding
        ) as message_id
    from newest as n
)

select
    e.topic,
    count(*) as messages,
    max((b.message_id >> 10) - (e.message_id >> 10)) as most_batches
from entry as e
join earlier as b
    on b.topic_id = e.topic_id and b.tick_id = e.tick_id and b.lowest_id >> 10 < b.message_id >> 10
where e.lane = 0 and e.state = 'committed' and e.due_at is null and e.message_id >> 10 < b.message_id >> 10
group by 1
