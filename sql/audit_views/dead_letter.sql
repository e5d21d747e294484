-- Dead letters of each group, also those that were redriven or discarded. A message becomes one
-- after its last attempt, or if it expires.
-- Cost: as the two tables, which are small.
create view mqpg_audit.dead_letter as
select d.subscription_id, s.consumer_group, nullif(s.member, '') as consumer, s.topic_id, t.name as topic, d.message_id,
    d.message_id >> 10 as batch_id, d.state, d.attempts, d.reason, d.died_at, d.left_at, d.left_by, d.final_id,
    d.queue_id, case when d.history = '[]' then 0 else (d.history -> -1 ->> 'attempt')::int end as last_attempt
from (
    select l.subscription_id, l.message_id, 'dead' as state, l.attempts, l.reason, l.died_at,
        null::timestamptz as left_at, null as left_by, l.deliver_id as final_id,
        nullif(l.queue_id, -1)::int as queue_id, l.history
    from mqpg.dead_letter as l
    union all
    select f.subscription_id, f.message_id, f.fate as state, f.attempts, f.reason, f.died_at, f.left_at,
        f.by as left_by, null as final_id, null as queue_id, f.history
    from mqpg.former_dead_letter as f
) as d
left join mqpg.subscription as s on d.subscription_id = s.subscription_id
left join mqpg.topic as t on s.topic_id = t.topic_id;
-- subscription_id: Id of the subscription
-- consumer_group: Name of the consumer group; null: it unsubscribed
-- consumer: Mode broadcast: the member of the group; else null
-- topic_id: Id of the topic; null: the group unsubscribed
-- topic: Name of the topic; null: the group unsubscribed
-- message_id: Id of the message
-- batch_id: message_id / 1024, to join with message
-- state: dead | redriven (the group got it again) | discarded
-- attempts: How often it was delivered
-- reason: Why the last attempt failed
-- died_at: When it became a dead letter
-- left_at: When it was redriven or discarded; null: it is a dead letter
-- left_by: The role that redrove or discarded it; null: it is a dead letter
-- final_id: Id of the message that holds the final payload which a commit brought; null: its own, or redriven or
--     discarded
-- queue_id: The queue of the topic that the message belongs to, from 0; null: not known, or redriven or discarded
-- last_attempt: Number of the last attempt in the list of its attempts, 0 if that is empty; null: there is no list
