-- Messages whose attempts are used up, or that expired, per subscription. The body stays in commit_log (or held).
-- redrive() and discard_dead_letters() move rows to former_letter.
create table mqpg.dead_letter (
    subscription_id int not null references mqpg.subscription on delete cascade,
    message_id bigint not null,
    deliver_id bigint not null,
    queue_id smallint not null,     -- the topic's queue that it came by
    attempts int not null,
    reason text,
    history jsonb,                  -- [{attempt, delivered_at, consumer, failed_at, reason}, …], as far as known
    died_at timestamptz not null default clock_timestamp(),
    primary key (subscription_id, message_id)
);
comment on table mqpg.dead_letter is 'Dead letters per subscription, with the reason and all attempts';
create index dead_letter_latest on mqpg.dead_letter (subscription_id, died_at, message_id);
