-- gap: holes of queues and what these lack, positions beyond their end or before their beginning, ticks without
-- a row although they appended something or that appended more than there is, and batch ids without a row although
-- another table of the broker names the message.
select
    coalesce(h.consumer_group, r.consumer_group) as consumer_group, t.topic, h.queue_id, h.queue_offset,
    null::bigint as message_id,
    h.evidence
from hole as h
join topic as t on t.topic_id = h.topic_id
left join reader as r on r.subscription_id = h.lane
union all
select a.consumer_group, t.topic, a.queue_id, null, a.message_id, a.evidence
from absent as a
join topic as t on t.topic_id = a.topic_id
where a.holed
union all
-- The offset that a group stores itself.
select
    p.consumer_group, p.topic, p.queue_id, p.tail, null,
    format('the group''s position %s is beyond the end of the queue, %s', p.next_offset, p.tail)
from place as p
where p.next_offset > p.tail and not coalesce(p.furthest_offset > p.tail, false)
union all
select
    null, t.topic, q.queue_id, q.base_offset, null,
    format('tick %s appended %s offsets, and has no row', q.tick_id, q.n)
from queue_row as q
join topic as t on t.topic_id = q.topic_id
where not exists (select from tick as k where k.tick_id = q.tick_id)
union all
-- The end of a queue that nobody has read leaves no hole. A row that names another tick is missing in none.
select
    null, null, null, null, null,
    format('tick %s says that it appended %s messages, and the queues have %s of them', k.tick_id, k.messages, k.appended)
from tick as k
where k.appended < k.messages
    and (select sum(t.messages - t.appended) from tick as t) > 0
    and not exists (select from hole as h)
union all
select
    p.consumer_group, p.topic, p.queue_id, p.furthest_offset, null,
    format('group %s is at %s, and retention keeps only what is from %s on', p.consumer_group, p.furthest_offset,
        p.oldest_offset)
from place as p
where p.oldest_offset > p.furthest_offset
union all
select
    d.consumer_group, d.topic, null, null, d.message_id,
    format('batch id %s has no row, but the message is in %s', d.message_id >> 10, d.witnesses)
from deleted as d
where d.in_broker
union all
select
    null, t.topic, null, null, m.message_id, 'it was delayed, and no row of the delayed messages says until when'
from odd_message as m
join topic as t on t.topic_id = m.topic_id
cross join horizon as h
where m.unscheduled and m.committed_at > h.delayed_from
    and (m.state = 'recalled' or exists (select from queued as q where q.message_id = m.message_id))
union all
select
    null, e.topic, e.queue_id, e.queue_offset, e.message_id,
    'it was delayed, and no decision of the appender says that it was due'
from entry as e
cross join horizon as h
left join tick as k on k.tick_id = e.tick_id
left join repeated as r on r.message_id = e.message_id
where e.lane = 0 and e.state = 'committed' and e.due_at is not null
    and not e.message_id <@ h.dropped_decisions
    and not exists (
        select from decision as d
        where d.message_id = e.message_id and d.stage = 1
            -- A message at two offsets is a duplicate.
            and (d.op = 'r' or r.message_id is not null or coalesce(d.xid = k.xid or k.xid = '3', true))
    )
union all
select
    null, t.topic, null, null, m.message_id,
    format('its dedup id is in slot %s only, and a send writes it into two', d.slot)
from (
    select d.topic_id, d.dedup_hash, d.message_id, min(d.slot) as slot
    from dedup as d
    group by d.topic_id, d.dedup_hash, d.message_id
    having (count(*) = 1 or max(d.slot) - min(d.slot) <> 1) and not bool_or(d.at_edge)
) as d
join message as m on m.message_id = d.message_id
join topic as t on t.topic_id = m.topic_id
-- Two messages of one id are a duplicate.
where not exists (
    select from dedup as o
    join message as m on m.message_id = o.message_id
    where o.topic_id = d.topic_id and o.dedup_hash = d.dedup_hash and o.message_id <> d.message_id
)
union all
select r.consumer_group, r.topic, null, null, null, format('no row says where it %s in queue %s', w.what, w.queue_id)
from (
    select c.subscription_id, c.queue_id, 'began' as what
    from cursor_now as c
    where not exists (
        select from queue_start as q where q.subscription_id = c.subscription_id and q.queue_id = c.queue_id
    )
    union all
    select q.subscription_id, q.queue_id, 'is'
    from (
        select s.subscription_id, i.i as queue_id
        from reader as s
        join topic as t on t.topic_id = s.topic_id
        cross join lateral generate_series(-1, t.queues - 1) as i (i)
        where s.reads
    ) as q
    where not exists (
        select from cursor_version as v where v.subscription_id = q.subscription_id and v.queue_id = q.queue_id
    )
) as w
join reader as r on r.subscription_id = w.subscription_id
union all
select null, null, null, null, null, 'a setting by which dedup ids or position jumps are judged is gone'
from horizon as h
where h.dedup_window is null or h.jumps_purged_before is null
union all
-- A consumer with a database of its own writes its offset with each effect. One without writes its
-- journal in the broker's database, and may have had the group before.
select
    p.consumer_group, p.topic, p.queue_id, null, null,
    'the group has applied messages of this queue and stores its offsets, and none of this queue is stored'
from (
    select p.*
    from place as p
    join journal_group as g on g.consumer_group = p.consumer_group and not g.in_broker
    where p.lane = 0 and not p.stored
        and exists (select from place as o where o.subscription_id = p.subscription_id and o.stored)
    offset 0
) as p
where exists (
    select from (
        select e.owner_id, e.topic_id, e.queue_id
        from effect as e
        where e.state = 'committed'
        union all
        select r.subscription_id, r.topic_id, s.queue_id
        from judged_start as s
        join reader as r on r.subscription_id = s.subscription_id
        where s.applied_until is not null
    ) as a
    where a.owner_id = p.subscription_id and a.topic_id = p.topic_id and a.queue_id = p.queue_id
)
