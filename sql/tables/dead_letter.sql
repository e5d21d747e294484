-- Messages whose attempts are used up, per subscription. The body stays in commit_log (or held).
create table mqpg.dead_letter (
    subscription_id int not null references mqpg.subscription on delete cascade,
    message_id bigint not null,
    deliver_id bigint not null,
    queue_id smallint not null,     -- the topic's queue that it came by
    attempts int not null,
    reason text,
    died_at timestamptz not null default clock_timestamp(),
    primary key (subscription_id, message_id)
);
comment on table mqpg.dead_letter is 'Dead letters per subscription, with the last reason';
