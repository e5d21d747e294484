-- Where each group is in each queue, where it started, and where the queue ends.
-- A group that stores its own offset is at that offset, any other group at the broker's cursor.
-- An offset behind a message of another topic was counted in one of the same name that was dropped.
-- A queue that changed its owner has positions in the databases of both. The furthest one counts. A
-- start from an earlier release may be unknown: then it is null. known_offset is the lowest offset
-- that its cursor is known to have been at, furthest_offset the highest one, read with the queues.
-- oldest: the first offset that is in the queue. Where it has no row, the noted end counts. oldest_offset:
-- the first one that retention keeps. stored: the group has stored its own offset.
-- journal: the group keeps one for the topic. Where its consumers did not say so (noted), and it has
-- no row of the topic, what they said of another topic counts: they would have said it of this one.
with stored as (
    select
        o.consumer_group, t.topic_id, o.queue_id, o.next_offset,
        row_number() over (
            partition by o.consumer_group, t.topic_id, o.queue_id order by o.incarnation desc, o.next_offset desc
        ) as nth
    from stored_offset as o
    join topic as t on t.topic = o.topic
    join run as r on r.broker_id = o.broker
    left join message as m on m.message_id = o.last_message_id
    where coalesce(m.topic_id = t.topic_id, true)
),

reach as (
    select
        q.topic_id, q.subscription_id as lane, q.queue_id,
        min(q.base_offset) as oldest,
        max(q.base_offset + q.n) as tail
    from queue_row as q
    group by 1, 2, 3
),

known as (
    select v.subscription_id, v.queue_id, min(v.committed) as known_offset, max(v.committed) as furthest_offset
    from cursor_version as v
    group by 1, 2
),

noted as (
    select distinct s.consumer_group
    from queue_start as q
    join subscription as s on s.subscription_id = q.subscription_id
    where q.noted
)

select
    s.consumer_group, t.topic, s.topic_id, s.subscription_id, lane.lane, c.queue_id,
    coalesce(o.next_offset, c.committed) as next_offset,
    coalesce(c.start_offset, b.start_offset, q.start_offset) as start_offset,
    k.known_offset, k.furthest_offset,
    coalesce(greatest(r.tail, j.tail, e.next_offset), 0) as tail,
    case when j.tail is null then coalesce(r.oldest, e.next_offset) end as oldest,
    e.oldest_offset,
    exists (select from journal_group as j where j.consumer_group = s.consumer_group)
    and not exists (
        select from odd_effect as e
        where e.unattributed and e.consumer_group = s.consumer_group and e.topic_id = s.topic_id
    )
    and (
        coalesce(q.noted, false)
        or n.consumer_group is null
        or exists (
            select from effect as e where e.consumer_group = s.consumer_group and e.topic_id = s.topic_id
        )
    ) as journal,
    coalesce(q.noted, false) as noted,
    o.consumer_group is not null as stored,
    s.filtered
from subscription as s
join cursor_now as c on c.subscription_id = s.subscription_id
join topic as t on t.topic_id = s.topic_id
cross join lateral (select case when c.queue_id < 0 then s.subscription_id else 0 end as lane) as lane
left join stored as o
    on o.consumer_group = s.consumer_group and o.topic_id = s.topic_id and o.queue_id = c.queue_id and o.nth = 1
left join reach as r on r.topic_id = s.topic_id and r.lane = lane.lane and r.queue_id = c.queue_id
left join judged_tail as j on j.topic_id = s.topic_id and j.lane = lane.lane and j.queue_id = c.queue_id
left join queue_note as e on e.topic_id = s.topic_id and e.lane = lane.lane and e.queue_id = c.queue_id
left join judged_start as b on b.subscription_id = s.subscription_id and b.queue_id = c.queue_id
left join queue_start as q on q.subscription_id = s.subscription_id and q.queue_id = c.queue_id
left join known as k on k.subscription_id = s.subscription_id and k.queue_id = c.queue_id
left join noted as n on n.consumer_group = s.consumer_group
