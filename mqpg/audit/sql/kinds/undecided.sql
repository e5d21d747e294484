-- undecided: half messages that were not decided in time, or whose check-back is due later than any call
-- may ask (without a checksum that says so). One that is in a queue or applied is early instead.
select
    null as consumer_group, t.topic, m.queue_id,
    null::bigint as queue_offset,
    m.message_id,
    format('no decision, prepared %s, check-back due %s', m.born_at::text, m.check_at::text) as evidence
from odd_message as m
join topic as t on t.topic_id = m.topic_id
left join spoiled as c on c.batch_id = m.message_id >> 10
cross join run as u
where m.kind = 'h' and m.state = 'undecided'
    and (
        u.overdue_before is null
        or m.check_at < u.overdue_before
        or (date_part('epoch', m.check_at - m.born_at) > t.longest and c.batch_id is null)
    )
    and not exists (select from queued as q where q.message_id = m.message_id)
    and not exists (select from unqueued as n where n.message_id = m.message_id)
    and not exists (select from outbox as o where o.message_id = m.message_id)
