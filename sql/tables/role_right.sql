-- Rights of roles; see the view rights. A row gives one right to one role, and pg_has_role() says
-- who has that role. The columns senders, readers, receivers and producers of other tables repeat
-- it for the hot path.
-- A row that names a topic, a producer group or a subscription ends with it, so that a name used
-- again does not inherit rights. The role is a regrole: a dump carries its name, and a restore
-- finds the role of that name.
create table mqpg.role_right (
    role_right_id int generated always as identity primary key,
    role regrole not null,
    privilege text not null
    check (privilege in ('send', 'produce', 'receive', 'operator', 'auditor', 'worker')),
    -- send: the topic; receive: the topic, for every group that reads it; null: all topics
    topic_id int references mqpg.topic on delete cascade,
    producer_group_id int references mqpg.producer_group on delete cascade,  -- produce: the group; null: all groups
    -- receive: the group's subscription to one topic; else null
    subscription_id int references mqpg.subscription on delete cascade,
    consumer_group text,  -- receive: this group, on all topics that it reads; else null
    granted_by text not null,  -- The role that granted it
    granted_at timestamptz not null default clock_timestamp()
);
create unique index role_right_once on mqpg.role_right (
    privilege, role, coalesce(topic_id, 0), coalesce(producer_group_id, 0), coalesce(subscription_id, 0),
    coalesce(consumer_group, '')
);
create index role_right_topic_id on mqpg.role_right (topic_id) where topic_id is not null;
create index role_right_producer_group_id on mqpg.role_right (producer_group_id) where producer_group_id is not null;
create index role_right_subscription_id on mqpg.role_right (subscription_id) where subscription_id is not null;
