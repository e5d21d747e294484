-- How often a move back delivered a message again. Where retention or a drop of the topic has dropped the offset,
-- the journal says which message it held. An offset that is missing although nothing was dropped is a
-- fault, and excuses nothing.
select r.subscription_id, r.message_id, count(*) as times
from (
    select j.subscription_id, j.message_id
    from jumped as j
    where j.back
    union all
    select b.subscription_id, b.message_id
    from (
        select distinct j.jump_id, j.subscription_id, a.message_id
        from jump as j
        join effect as a
            on a.subscription_id = j.subscription_id
            and a.queue_id = j.queue_id
            and a.queue_offset >= j.from_offset
            and a.queue_offset < j.to_offset
        left join topic as t on t.topic_id = j.topic_id
        cross join horizon as h
        where j.back and (h.ticks_dropped or t.topic_id is null) and not exists (
            select from entry as e
            where e.topic_id = j.topic_id
                and e.lane = case when j.queue_id = -1 then j.subscription_id else 0 end
                and e.queue_id = j.queue_id
                and e.queue_offset = a.queue_offset
        )
    ) as b
) as r
group by 1, 2
