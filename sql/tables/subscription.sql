-- Subscriptions: consumer group and topic, mode, filter and retry policy. A broadcast group has one
-- row of its own and one row for each member. Each member row has its own positions, retry lane and
-- locks, like any subscription, and all rows of the group have the same settings. The group's own
-- row only holds the positions that a new member starts from. It reads nothing, so no message is
-- stored for it.
-- Only the owner of the schema may read receipt_secrets: whoever knows one can make receipts. They
-- are in this row because receive() and ack() read it anyway. adopt() keeps them, so that an old
-- receipt is still recognized, and refused as stale.
create table mqpg.subscription (
    subscription_id int generated always as identity primary key,
    consumer_group text not null,
    topic_id int not null references mqpg.topic on delete cascade,
    -- Mode broadcast: the consumer's name; empty in the group's own row and in other modes
    member text not null default '',
    -- Mode broadcast: the group's own row; null in that row and in other modes
    member_of int references mqpg.subscription on delete cascade,
    mode text not null,  -- exclusive | shared | pinned | broadcast
    start text not null,  -- As given to subscribe(): earliest | latest | a time
    filter jsonpath,  -- jsonpath that chooses messages; null: all
    tags text [],  -- Tags that choose messages; null: all
    max_attempts int not null,  -- Deliveries until a message becomes a dead letter
    retry_delay interval not null,  -- Time until the second attempt; doubles with each further one
    on_failure text not null default 'skip',  -- skip | block_key | block_queue
    paused boolean not null default false,
    retries_from timestamptz not null default '-infinity',  -- Retries that were written before this time are purged
    created_at timestamptz not null default clock_timestamp(),
    receivers mqpg.grantee [] not null default '{}',  -- Roles that may receive; a copy of role_right for the hot path
    -- Secrets of 244 random bits that receipts are signed with: the first one signs, every one verifies
    receipt_secrets bytea [] not null default array[uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid())],
    unique (topic_id, consumer_group, member)
);
create index subscription_consumer_group on mqpg.subscription (consumer_group);
create index subscription_member_of on mqpg.subscription (member_of) where member_of is not null;
