-- Delayed messages, commits with a delay, and retries, one row for each message. A message whose
-- recall was rolled back may have several rows; the last one counts. Rows stay after their time,
-- until retention drops them.
-- A condition on written_at leaves out partitions, and one on due_at uses an index.
-- Cost: the rows in the range of written_at, and two looks at the newest tick if is_due is read.
create view mqpg_audit.delayed as
select d.first_id + i.i as message_id, (d.first_id + i.i) >> 10 as batch_id, d.topic_id, t.name as topic,
    nullif(d.subscription_id, 0) as subscription_id, s.consumer_group, nullif(s.member, '') as consumer,
    d.visible_at as due_at, d.written_at, case when d.subscription_id <> 0 then d.attempt::int end as attempt, d.reason,
    coalesce(
        d.visible_at <= (
            select n.due_until from mqpg.tick as n
            order by n.tick_id desc
            limit 1
        )
        and pg_visible_in_snapshot(d.xid, (
            select n.snapshot from mqpg.tick as n
            order by n.tick_id desc
            limit 1
        )), false
    ) as is_due,
    d.deliver_id + i.i as final_id, d.queue_id::int as queue_id, d.xid::text as xid
from mqpg.delayed as d
cross join lateral generate_series(0, d.n - 1) as i (i)
left join mqpg.topic as t on d.topic_id = t.topic_id
left join mqpg.subscription as s on d.subscription_id = s.subscription_id;
-- message_id: Id of the message
-- batch_id: message_id / 1024, to join with message
-- topic_id: Id of the topic
-- topic: Name of the topic; null: it was dropped
-- subscription_id: Retry: the subscription whose attempt failed; null: a delayed message, for every group
-- consumer_group: Retry: the consumer group; null: a delayed message, or the group unsubscribed
-- consumer: Retry in mode broadcast: the member of the group; else null
-- due_at: When it becomes visible
-- written_at: When the row was written; the cut column, by which partitions are left out
-- attempt: Retry: number of the delivery that is to come; 1 after redrive(); else null
-- reason: Retry: why the attempt before failed; else null
-- is_due: true: the newest tick has reached it, so it is in a queue, unless it was recalled or purged
-- final_id: Id of the message that holds the final payload which a commit brought; null: its own
-- queue_id: The queue of the topic that it belongs to, from 0
-- xid: The transaction that wrote the row
