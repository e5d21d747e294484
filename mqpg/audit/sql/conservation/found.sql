-- What does not add up, each fault once. What a dead letter or a position jump hides that the first
-- definition does not believe is named after what hides it. Nothing is said of messages in a queue
-- whose offsets have gaps or repeat, because it is not certain which message an offset held. consumer_group: whose
-- retry lane it is.
with ragged as (
    select m.topic_id, m.queue_id, r.consumer_group
    from (
        select m.topic_id, m.lane, m.queue_id
        from stored_message as m
        group by 1, 2, 3
        having count(*) > count(distinct m.queue_offset)
    ) as m
    left join reader as r on r.subscription_id = m.lane
    union all
    select t.topic_id, a.queue_id, case when a.queue_id < 0 then a.consumer_group end
    from anomaly as a
    join topic as t on t.topic = a.topic
    where a.kind = 'gap' and a.queue_id is not null
)

select q.kind, r.consumer_group, t.topic, q.queue_id, q.queue_offset, q.message_id, q.evidence
from (
    select
        b.*,
        row_number() over (
            partition by b.subscription_id, b.message_id, case when b.message_id is null then b.evidence end
            order by b.place, b.queue_id nulls first, b.queue_offset nulls first
        ) as nth
    from broken as b
) as q
join reader as r on r.subscription_id = q.subscription_id
join topic as t on t.topic_id = r.topic_id
where q.nth = 1
    and not exists (
        select from anomaly as a
        where a.message_id = q.message_id and (a.consumer_group is null or a.consumer_group = r.consumer_group)
    )
    and not exists (
        select from cursor_fault as f
        where f.consumer_group = r.consumer_group and f.topic = t.topic and f.queue_id = q.queue_id
            and f.version = q.version
    )
    and not exists (
        select from jump as j
        join anomaly as a
            on a.kind = 'unexplained'
            and a.consumer_group = j.consumer_group
            and a.topic = j.topic
            and a.queue_id = j.queue_id
            and a.queue_offset = j.from_offset
        where j.subscription_id = q.subscription_id and j.queue_id = q.queue_id
            and q.queue_offset >= j.from_offset and q.queue_offset < j.to_offset
    )
    -- A group reads again from the offset that it stores.
    and not exists (
        select from place as p
        where q.place = 9 and p.stored and p.lane = 0 and p.subscription_id = q.subscription_id
            and p.queue_id = q.queue_id and p.next_offset <= q.queue_offset
    )
    and not exists (select from hole as h where q.queue_id < 0 and h.lane = q.subscription_id)
    and not exists (
        select from stored_message as m
        join ragged as g on g.topic_id = m.topic_id and g.queue_id = m.queue_id
        where m.message_id = q.message_id and coalesce(g.consumer_group = r.consumer_group, true)
    )
