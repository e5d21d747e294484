-- One row for each offset of the consume queues, with the state of its message. lane is 0 in a
-- topic's own queues, and the subscription in a retry lane.
-- Further states: missing (there is no such message), other_topic, expired (retention has dropped
-- it). body_id: the message that holds the body. own_body: it is the one that the message's
-- decision names, or its own. record_queue: the queue that its record says.
with queued as (
    select
        q.topic_id, q.subscription_id as lane, q.queue_id, q.tick_id,
        q.attempt,
        q.base_offset + q.first + i.i as queue_offset,
        q.first_id + i.i as message_id,
        coalesce(q.deliver_id, q.first_id) + i.i as body_id
    from queue_run as q
    cross join lateral generate_series(0, q.after_last - q.first - 1) as i (i)
    where q.first_id is not null
)

select
    q.topic_id, q.lane, q.queue_id, q.tick_id, q.attempt, q.queue_offset, q.message_id, q.body_id,
    m.queue_id as record_queue,
    q.body_id = coalesce(m.deliver_id, m.message_id) as own_body,
    m.committed_at, m.commit_xid, m.place, m.due_at, t.topic,
    case
        when m.message_id is null then case when q.message_id <@ h.dropped_ids then 'expired' else 'missing' end
        when m.topic_id = q.topic_id then m.state
        else 'other_topic'
    end as state
from queued as q
join topic as t on t.topic_id = q.topic_id
left join message as m on m.message_id = q.message_id
cross join horizon as h
