-- duplicate_send: one dedup id stored as two messages within its window.
-- An id is written into two slots of the length of the window. A call may wait between that and its
-- message, so the times of two legal sends may be a little less apart than the window. If the
-- server's clock went back, they are less apart by as much, but not their slots, which count the broker's
-- time. A send that loses against another one may leave its id in a slot. It has no message.
select
    null as consumer_group, t.topic,
    null::int as queue_id,
    null::bigint as queue_offset,
    p.message_id,
    format('it has the dedup id of message %s', p.message_before) as evidence
from (
    select
        s.topic_id, s.message_id, s.slot, m.born_at,
        lag(s.message_id) over sends as message_before,
        lag(s.slot) over sends as slot_before,
        lag(m.born_at) over sends as born_before
    from (
        select d.topic_id, d.dedup_hash, d.message_id, max(d.slot) as slot
        from dedup as d
        group by 1, 2, 3
    ) as s
    join message as m on m.message_id = s.message_id
    window sends as (partition by s.topic_id, s.dedup_hash order by s.message_id, s.slot)
) as p
join topic as t on t.topic_id = p.topic_id
cross join horizon as h
cross join setback as b
where date_part('epoch', p.born_at - p.born_before + b.back) < h.dedup_window / 2 or p.slot - p.slot_before < 2
