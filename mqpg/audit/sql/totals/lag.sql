-- How many offsets, retry lanes included, each group has not reached yet. A group that stores its own
-- offset stores no move of its cursor, and still gets nothing of what a move has skipped.
with skipped as (
    select p.subscription_id, p.queue_id, sum(j.to_offset - greatest(j.from_offset, p.next_offset)) as offsets
    from place as p
    join jump as j on j.subscription_id = p.subscription_id and j.queue_id = p.queue_id and j.to_offset > p.next_offset
    where p.stored and not j.back and not exists (
        select from jump as b
        where b.back
            and b.subscription_id = j.subscription_id
            and b.queue_id = j.queue_id
            and b.jump_id > j.jump_id
            and b.from_offset < j.to_offset
    )
    group by 1, 2
)

select p.consumer_group, p.topic, sum(p.tail - p.next_offset - coalesce(s.offsets, 0))::bigint as lag
from place as p
left join skipped as s on s.subscription_id = p.subscription_id and s.queue_id = p.queue_id
where p.tail - p.next_offset > coalesce(s.offsets, 0)
group by 1, 2
