-- Dead letters of each subscription, with the last reason and the known attempts. A message becomes
-- one when its attempts are used up, or if it expires. Its body stays in the commit log, or is
-- copied when the segment is dropped. redrive() and discard_dead_letters() take a row out of here
-- and keep a record of it.
create table mqpg.dead_letter (
    subscription_id int not null references mqpg.subscription on delete cascade,
    message_id bigint not null,
    deliver_id bigint not null,  -- Message id that the body lies under
    queue_id smallint not null,  -- The topic's queue that the message came by
    attempts int not null,  -- How often the message was delivered
    reason text,  -- Why the last attempt failed
    history jsonb,  -- [{attempt, delivered_at, consumer, failed_at, reason}, …], as far as it is known
    died_at timestamptz not null default clock_timestamp(),
    primary key (subscription_id, message_id)
);
create index dead_letter_latest on mqpg.dead_letter (subscription_id, died_at, message_id);
