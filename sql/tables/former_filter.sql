-- Filters and tags of subscriptions that were replaced. Append-only. The audit judges each message
-- by the filter that was in force when the group passed it.
create table mqpg.former_filter (
    subscription_id int not null references mqpg.subscription on delete cascade,
    filter jsonpath,  -- jsonpath that chose messages; null: all
    tags text [],  -- Tags that chose messages; null: all
    replaced_at timestamptz not null default clock_timestamp(),  -- Until when it chose messages
    by text not null default session_user
);
-- Without a key; publications need one for DELETE.
alter table mqpg.former_filter replica identity full;
create index former_filter_subscription on mqpg.former_filter (subscription_id, replaced_at);
