-- misplaced: a message in another queue than the others of its key, than its own record says, or
-- than its final payload. Where queues were added, the new number is a multiple of the first one. So
-- a key has one queue before and one after, and one modulo the first number all the time. The COMMIT or
-- ROLLBACK of a relay topic comes into the queue of its half message, and so counts like that one.
with phase as (
    select m.message_id, min(h.message_id) as half_id
    from message as m
    join topic as t on t.topic_id = m.topic_id and t.grown_from is not null
    join message as h
        on h.kind = 'h'
        and h.state in ('relayed', 'rolled_back')
        and h.topic_id = m.topic_id
        and h.queue_id = m.queue_id
        and h.key_hash = m.key_hash
        and h.commit_xid = m.xid
    where m.kind in ('n', 'd')
    group by 1
),

stored as (
    select
        m.topic_id, m.key_hash, m.message_id, m.queue_id, t.first_queues, t.grown_from, t.settled_batch,
        coalesce(f.half_id, m.message_id) >> 10 as batch_id
    from message as m
    join topic as t on t.topic_id = m.topic_id
    left join phase as f on f.message_id = m.message_id
    where m.key_hash is not null and m.kind <> 'f'
),

keyed as (
    select
        s.topic_id, s.key_hash, s.message_id, s.queue_id, 'always' as era,
        case when s.grown_from is null then s.queue_id else s.queue_id % s.first_queues end as place
    from stored as s
    union all
    select
        s.topic_id, s.key_hash, s.message_id, s.queue_id,
        case when s.batch_id < s.grown_from then 'before' else 'after' end,
        s.queue_id
    from stored as s
    where s.batch_id < s.grown_from or s.batch_id > s.settled_batch
),

ranked as (
    select
        k.topic_id,
        k.key_hash,
        k.era,
        k.place,
        row_number() over (
            partition by k.topic_id, k.key_hash, k.era order by count(*) desc, min(k.message_id)
        ) as nth
    from keyed as k
    group by 1, 2, 3, 4
),

found as (
    select
        k.topic_id,
        k.queue_id,
        null::bigint as queue_offset,
        k.message_id,
        format('its record says queue %s, and other messages of its key are in another', k.queue_id) as evidence
    from keyed as k
    join ranked as r
        on r.topic_id = k.topic_id and r.key_hash = k.key_hash and r.era = k.era and r.place = k.place
    where r.nth > 1
    union all
    -- A message at two offsets is a duplicate.
    select
        e.topic_id, e.queue_id, e.queue_offset, e.message_id,
        format('in this queue, but its record says queue %s', e.record_queue)
    from odd_entry as e
    where e.lane = 0 and e.state = 'committed' and e.queue_id <> e.record_queue
        and not exists (select from repeated as r where r.message_id = e.message_id)
    union all
    select
        d.stored_id,
        d.record_queue,
        null,
        d.message_id,
        format(
            'its record says queue %s, its decision queue %s, its final payload queue %s',
            d.record_queue, d.queue_id, coalesce(f.queue_id, d.record_queue)
        )
    from odd_decision as d
    left join message as f on f.message_id = d.deliver_id and f.kind = 'f'
    where d.queue_id <> d.record_queue or f.queue_id <> d.record_queue
    union all
    select
        m.topic_id, m.queue_id, null, m.message_id,
        format('its record says queue %s, its row of the delayed messages queue %s', m.queue_id, d.queue_id)
    from delayed as d
    join message as m on m.message_id = d.message_id
    where d.queue_id <> case when d.subscription_id = 0 then m.queue_id else -1 end
    union all
    select
        m.topic_id, m.queue_id, null, m.message_id,
        format('its record says queue %s, of which the topic has %s', m.queue_id, t.queues)
    from message as m
    join topic as t on t.topic_id = m.topic_id
    where m.queue_id >= t.queues
)

select null as consumer_group, t.topic, f.queue_id, f.queue_offset, f.message_id, f.evidence
from (
    select f.*, row_number() over (partition by f.message_id order by f.evidence collate "C") as nth
    from found as f
) as f
join topic as t on t.topic_id = f.topic_id
where f.nth = 1
