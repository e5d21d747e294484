-- misplaced: a message in another queue than the others of its key, than its own record says, or
-- than its final payload. The number of a topic's queues never changes, so a key has one queue for
-- ever.
with ranked as (
    select
        m.topic_id,
        m.key_hash,
        m.queue_id,
        row_number() over (
            partition by m.topic_id, m.key_hash order by count(*) desc, min(m.message_id)
        ) as place
    from message as m
    where m.key_hash is not null and m.kind <> 'f'
    group by 1, 2, 3
),

-- A message at two offsets is a duplicate.
placed as (
    select e.message_id, min(e.queue_id) as queue_id, min(e.queue_offset) as queue_offset
    from entry as e
    where e.lane = 0 and e.state = 'committed'
    group by 1
    having count(*) = 1
),

found as (
    select
        m.topic_id,
        m.queue_id,
        null::bigint as queue_offset,
        m.message_id,
        format('its record says queue %s, and other messages of its key are in another', m.queue_id) as evidence
    from message as m
    join ranked as r on r.topic_id = m.topic_id and r.key_hash = m.key_hash and r.queue_id = m.queue_id
    where r.place > 1 and m.kind <> 'f'
    union all
    select
        m.topic_id,
        p.queue_id,
        p.queue_offset,
        m.message_id,
        format('in this queue, but its record says queue %s', m.queue_id)
    from placed as p
    join message as m on m.message_id = p.message_id
    where p.queue_id <> m.queue_id
    union all
    select
        m.topic_id,
        m.queue_id,
        null,
        m.message_id,
        format(
            'its record says queue %s, its decision queue %s, its final payload queue %s',
            m.queue_id, m.decision_queue_id, coalesce(f.queue_id, m.queue_id)
        )
    from message as m
    left join message as f on f.message_id = m.deliver_id and f.kind = 'f'
    where m.kind = 'h' and (m.decision_queue_id <> m.queue_id or f.queue_id <> m.queue_id)
)

select distinct on (f.message_id) null as consumer_group, t.topic, f.queue_id, f.queue_offset, f.message_id, f.evidence
from found as f
join topic as t on t.topic_id = f.topic_id
order by f.message_id, f.evidence collate "C"
