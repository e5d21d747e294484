-- The rows of outboxes with their messages at the broker. A row names the handle from the local
-- commit on. Before that, the row's id is the dedup id of its message.
select
    o.ledger, o.state, o.topic,
    coalesce(o.handle_id, s.message_id) as message_id,
    m.kind, m.state as message_state
from outbox_row as o
join topic as t on t.topic = o.topic
left join (
    select
        d.topic_id, d.dedup_hash, d.message_id,
        row_number() over (partition by d.topic_id, d.dedup_hash order by d.slot desc) as nth
    from dedup as d
) as s on s.topic_id = t.topic_id and s.dedup_hash = o.dedup_hash and s.nth = 1
left join message as m on m.message_id = coalesce(o.handle_id, s.message_id)
