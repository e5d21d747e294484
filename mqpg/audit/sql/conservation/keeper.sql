-- The subscriptions with a journal. own: the group stores its offsets beside its journal, so it goes
-- on at them, and what the broker delivers again it does not apply again. subscriptions: how many of
-- the group read the topic. A row of the journal that may be of any of several is no answer of one,
-- so such a group is left out.
with stored as (
    select distinct o.consumer_group, o.topic
    from stored_offset as o
    join run as r on r.broker_id = o.broker
),

present as (
    select s.consumer_group, s.topic_id, count(*) as subscriptions from subscription as s group by 1, 2
),

unnamed as (
    select distinct a.consumer_group, a.topic from applied as a where a.subscription_id is null
)

select
    s.subscription_id, s.consumer_group, s.topic_id, t.topic, p.subscriptions, o.topic is not null as own
from subscription as s
join topic as t on t.topic_id = s.topic_id
join present as p on p.consumer_group = s.consumer_group and p.topic_id = s.topic_id
left join stored as o on o.consumer_group = s.consumer_group and o.topic = t.topic
left join unnamed as u on u.consumer_group = s.consumer_group and u.topic = t.topic
where exists (select from journal_group as j where j.consumer_group = s.consumer_group)
    and (p.subscriptions = 1 or u.topic is null)
