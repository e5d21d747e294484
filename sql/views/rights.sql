-- Who may do what. A role also has the rights of the roles that it is a member of, unless it is
-- NOINHERIT. Superusers, the owner of the schema and its members may everything and have no row.
-- Cost: one row for each right.
create view mqpg.rights as
select p.rolname as role, r.privilege,
    case when r.privilege in ('send', 'receive') then coalesce(t.name, '*') end as topic,
    case when r.privilege = 'receive' then coalesce(s.consumer_group, r.consumer_group, '*') end as consumer_group,
    case when r.privilege = 'produce' then coalesce(g.name, '*') end as producer_group, r.granted_by, r.granted_at
from mqpg.role_right as r
inner join pg_catalog.pg_roles as p on r.role = p.oid
left join mqpg.subscription as s on r.subscription_id = s.subscription_id
left join mqpg.topic as t on t.topic_id = coalesce(r.topic_id, s.topic_id)
left join mqpg.producer_group as g on r.producer_group_id = g.producer_group_id;
-- privilege: send | produce | receive | operator | auditor | worker
-- topic: send, receive: the topic, or * for all
-- consumer_group: receive: the consumer group, or * for all
-- producer_group: produce: the producer group, or * for all
-- granted_by: The role that granted it
