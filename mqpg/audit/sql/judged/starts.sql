-- Where each subscription with a journal started, as in frames/delivery.sql, and when it last
-- applied an offset of the judged part. What was not read now is known from before.
select
    p.subscription_id, p.queue_id,
    coalesce(p.start_offset, least(f.queue_offset, p.known_offset), p.next_offset) as start_offset,
    greatest(f.applied_until, b.applied_until) as applied_until
from place as p
left join judged_start as b on b.subscription_id = p.subscription_id and b.queue_id = p.queue_id
left join (
    select
        e.owner_id, e.queue_id,
        min(e.queue_offset) as queue_offset,
        max(e.applied_at) filter (where e.queue_offset < t.tail) as applied_until
    from effect as e
    left join judged_tail as t on t.topic_id = e.topic_id and t.queue_id = e.queue_id and t.lane = 0
    where e.queue_id >= 0 and e.owner_id is not null
    group by 1, 2
) as f on f.owner_id = p.subscription_id and f.queue_id = p.queue_id
where p.journal
