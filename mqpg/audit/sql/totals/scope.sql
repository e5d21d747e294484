-- How much was read: the messages, and the times of the first and the last one in seconds since 1970.
-- past_retention: offsets of topics whose row or body retention has dropped. Offsets begin at 0, so
-- those below the first one that is stored are gone. Where a queue has no row, all that a group has
-- passed is.
with stored as (
    select q.topic_id, q.queue_id, min(q.base_offset) as offsets
    from queue_row as q
    where q.subscription_id = 0
    group by 1, 2
),

gone as (
    select s.topic_id, s.queue_id, s.offsets
    from stored as s
    union all
    select p.topic_id, p.queue_id, max(p.next_offset)
    from place as p
    left join stored as s on s.topic_id = p.topic_id and s.queue_id = p.queue_id
    where p.lane = 0 and s.topic_id is null
    group by 1, 2
),

message_read as (
    select
        count(*) as messages,
        floor(extract(epoch from min(m.born_at) - timestamptz '1970-01-01 00:00:00 UTC'))::bigint as first,
        floor(extract(epoch from max(m.born_at) - timestamptz '1970-01-01 00:00:00 UTC'))::bigint as last
    from message as m
    join topic as t on t.topic_id = m.topic_id
    where m.kind <> 'f'
),

offset_gone as (
    select coalesce(sum(g.offsets), 0)::bigint as offsets
    from gone as g
    join topic as t on t.topic_id = g.topic_id
    left join judged_tail as j on j.topic_id = g.topic_id and j.lane = 0 and j.queue_id = g.queue_id
    where j.topic_id is null
),

body_gone as (
    select count(*) as offsets
    from odd_entry as e
    join topic as t on t.topic_id = e.topic_id
    where e.lane = 0 and e.state = 'expired'
)

select m.messages, m.first, m.last, o.offsets + b.offsets as past_retention
from message_read as m
cross join offset_gone as o
cross join body_gone as b
