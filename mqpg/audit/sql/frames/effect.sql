-- One row for each journal row, with the state of its message as in entry. topic_id is null where
-- the broker has no topic of that name. topic_dropped: the message is of a topic that is gone.
-- A name that is subscribed again is a new subscription, and so is each member of a broadcast
-- group. Each may apply every message once. A row of an earlier release names no subscription. It
-- belongs to the present one where there is only one.
-- owner_id is the subscription whose deliveries a row answers, null where there is none. A group
-- with offsets in its own database continues there when it is subscribed again, so all of its rows
-- say what it has applied. unattributed: the row may belong to any of several subscriptions.
-- strange: it names a present one of another group or topic.
with present as (
    select s.consumer_group, s.topic_id, min(s.subscription_id) as subscription_id, count(*) as n
    from subscription as s
    group by 1, 2
),

continuing as (
    select distinct o.consumer_group, o.topic
    from stored_offset as o
    join run as r on r.broker_id = o.broker
),

attributed as (
    select
        a.*,
        t.topic_id,
        coalesce(a.subscription_id, sole.subscription_id) as named_id,
        sole.subscription_id as sole_id,
        p.subscription_id is not null as subscribed,
        c.topic is not null as continues,
        coalesce(n.consumer_group <> a.consumer_group or n.topic_id <> t.topic_id, false) as strange
    from applied as a
    left join topic as t on t.topic = a.topic
    left join present as p on p.consumer_group = a.consumer_group and p.topic_id = t.topic_id
    left join subscription as n on n.subscription_id = a.subscription_id
    left join continuing as c on c.consumer_group = a.consumer_group and c.topic = a.topic
    cross join lateral (select case when p.n = 1 then p.subscription_id end as subscription_id) as sole
)

select
    a.topic_id, a.queue_id, a.queue_offset, a.message_id, a.applied_at,
    a.named_id as subscription_id,
    coalesce(case when a.continues then a.sole_id end, a.named_id) as owner_id,
    a.named_id is null and a.subscribed as unattributed,
    a.strange,
    m.committed_at, m.expected, m.waiting, m.may_be_dropped, m.due_at, m.key_hash, a.consumer_group, a.topic,
    case
        when m.message_id is null then case when a.message_id <@ h.dropped_ids then 'expired' else 'missing' end
        when m.topic_id = a.topic_id then m.state
        when o.topic_id is null then 'topic_dropped'
        else 'other_topic'
    end as state
from attributed as a
left join message as m on m.message_id = a.message_id
left join topic as o on o.topic_id = m.topic_id
cross join horizon as h
