-- Where a queue or a retry lane lacks rows, or has one that does not add up: which messages its other offsets
-- hold is then not certain. What follows from that in other kinds is not said again.
-- Where no part of the queues was ever dropped, each must begin at offset 0.
with ordered as (
    select
        q.topic_id, q.subscription_id, q.queue_id, q.base_offset, q.tick_id,
        max(q.tick_id) over (
            partition by q.topic_id, q.subscription_id, q.queue_id
            order by q.base_offset, q.tick_id
            rows between unbounded preceding and 1 preceding
        ) as tick_before,
        coalesce(
            max(q.base_offset + q.n) over (
                partition by q.topic_id, q.subscription_id, q.queue_id
                order by q.base_offset, q.tick_id
                rows between unbounded preceding and 1 preceding
            ),
            j.tail,
            case when h.queues_dropped then q.base_offset else 0 end
        ) as expected
    from queue_row as q
    left join judged_tail as j
        on j.topic_id = q.topic_id and j.lane = q.subscription_id and j.queue_id = q.queue_id
    cross join horizon as h
)

select
    null as consumer_group, o.topic_id,
    o.subscription_id as lane,
    o.queue_id,
    o.expected as queue_offset,
    format('no row holds the offsets %s to %s', o.expected, o.base_offset - 1) as evidence
from ordered as o
where o.base_offset > o.expected
    -- Between two rows that are there, a merge may have left out what was past retention.
    and not exists (
        select from left_out as l
        where l.topic_id = o.topic_id and l.lower_id <= o.tick_id and l.upper_id > o.tick_before
    )
union all
select
    null, c.topic_id, c.subscription_id, c.queue_id, c.base_offset,
    format('n = %s does not fit the runs %s at %s', c.n, to_json(c.first_ids), to_json(c.starts))
from queue_row as c
where not c.consistent
union all
select
    p.consumer_group, p.topic_id, p.lane, p.queue_id, p.tail,
    format('the group''s position %s is beyond the end of the queue, %s', p.furthest_offset, p.tail)
from place as p
where p.furthest_offset > p.tail
union all
-- What a group has still to read must be there: from its position to the end of the queue. A position
-- that was read before the queues may have moved since.
select
    p.consumer_group, p.topic_id, p.lane, p.queue_id, u.unread,
    format('group %s has still to read the offsets %s to %s, and no row holds them', p.consumer_group, u.unread, p.oldest - 1)
from place as p
cross join lateral (select greatest(p.furthest_offset, p.next_offset) as unread) as u
where u.unread < p.oldest
union all
-- If the rows of a queue are old or dropped, it continues at its noted end. It begins at its oldest offset.
select
    null, e.topic_id, e.lane, e.queue_id, e.first_offset,
    format('its rows begin at %s and end at %s, and noted are the oldest offset %s and the end %s of the first ones',
        e.first_offset, e.tail, coalesce(n.oldest_offset, 0), coalesce(n.next_offset, 0))
from (
    select
        q.topic_id, q.subscription_id as lane, q.queue_id,
        min(q.base_offset) as first_offset,
        max(q.base_offset + q.n) as tail,
        max(q.tick_id) as last_tick,
        min(case when q.tick_id >= h.noted_until then q.base_offset end) as not_noted
    from queue_row as q
    cross join horizon as h
    group by 1, 2, 3
) as e
cross join horizon as h
cross join judged as j
left join queue_note as n on n.topic_id = e.topic_id and n.lane = e.lane and n.queue_id = e.queue_id
left join (select distinct r.subscription_id from reader as r) as r on r.subscription_id = e.lane
left join (select l.topic_id, max(l.upper_id) as upper_id from left_out as l group by 1) as l on l.topic_id = e.topic_id
where j.last_tick < h.noted_until
    and (e.lane = 0 or r.subscription_id is not null)
    and (
        coalesce(n.next_offset, 0) <> case when h.noted_until > 0 then coalesce(e.not_noted, e.tail) else 0 end
        and not (
            e.not_noted is null and n.next_offset > e.tail and coalesce(l.upper_id > e.last_tick, false)
        )
        or coalesce(n.oldest_offset, 0) < e.first_offset and e.lane = 0 and h.queues_dropped and j.last_tick < 0
    )
