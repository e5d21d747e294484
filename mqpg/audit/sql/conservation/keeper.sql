-- The subscriptions with a journal. own: the group stores its offsets beside its journal, so it goes
-- on at them, and what the broker delivers again it does not apply again. subscriptions: how many of
-- the group read the topic. A row of the journal that may be of any of several is no answer of one,
-- so such a group is left out. So is a group whose consumers said that they keep a journal of other
-- topics only.
with stored as (
    select distinct o.consumer_group, o.topic
    from stored_offset as o
    join run as r on r.broker_id = o.broker
),

present as (
    select
        s.consumer_group, s.topic_id,
        count(distinct s.subscription_id) as subscriptions,
        bool_or(coalesce(q.noted, false)) as noted
    from subscription as s
    left join queue_start as q on q.subscription_id = s.subscription_id
    group by 1, 2
),

named as (
    select a.consumer_group, a.topic, bool_or(a.subscription_id is null) as unnamed
    from applied as a
    group by 1, 2
)

select
    s.subscription_id, s.consumer_group, s.topic_id, t.topic, p.subscriptions, o.topic is not null as own
from subscription as s
join topic as t on t.topic_id = s.topic_id
join present as p on p.consumer_group = s.consumer_group and p.topic_id = s.topic_id
left join stored as o on o.consumer_group = s.consumer_group and o.topic = t.topic
left join named as a on a.consumer_group = s.consumer_group and a.topic = t.topic
where exists (select from journal_group as j where j.consumer_group = s.consumer_group)
    and (p.subscriptions = 1 or not coalesce(a.unnamed, false))
    and (p.noted or a.topic is not null or not exists (
        select from present as n where n.consumer_group = s.consumer_group and n.noted
    ))
