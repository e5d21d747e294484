-- Decisions and check-backs that say something else than their message, have a time before it or after the
-- audit, or name a final payload. stored_id, record_queue: the topic and the queue that the record says.
select d.*
from (
    select
        'decision' as what,
        d.message_id, d.topic_id, d.queue_id, d.stage, d.at, d.decided_by, d.deliver_id,
        m.topic_id as stored_id, m.queue_id as record_queue, m.kind, m.due_at, m.unscheduled, m.born_at
    from decision as d
    left join message as m on m.message_id = d.message_id
    union all
    select
        'check-back', c.message_id, m.topic_id, m.queue_id, 0, c.at, 'check-back', null, m.topic_id, m.queue_id, m.kind,
        m.due_at, m.unscheduled, m.born_at
    from check_back as c
    join message as m on m.message_id = c.message_id
) as d
cross join run as u
where d.topic_id <> d.stored_id or d.queue_id <> d.record_queue or d.deliver_id is not null
    or d.at < d.born_at or d.at > u.taken_at
    or case d.stage when 0 then d.kind <> 'h' else d.due_at is null and not d.unscheduled end
