-- Built by tools/build_sql.py from the files named below: edit those, not this one.

-- schema.sql
-- The schema of mqpg. Topics, groups and handles are rows in its tables, never identifiers.
create schema if not exists mqpg;
comment on schema mqpg is 'mqpg: a transactional message queue';

-- pgmq.sql
-- PGMQ, the message queue extension whose queue `mqpg_oplog` holds the half messages that are
-- overdue (protocol T3). mqpg uses PGMQ for nothing else.
-- An installed PGMQ is used as it is. Otherwise this script creates the extension where the server
-- offers it, and else runs the bundled SQL, which `mqpg migrate` inserts in place of the marker
-- below.
-- Locks: those of its own DDL.
-- Cost: runs once per database.
-- Errors: 0A000 (PGMQ is missing or too old).
do $mqpg$
declare
    v_bundled text := $mqpg_pgmq_bundled$/* mqpg: bundled PGMQ SQL */$mqpg_pgmq_bundled$;
begin
    if to_regprocedure('pgmq.send(text, jsonb, jsonb, integer)') is null then
        if exists (select from pg_available_extensions where name = 'pgmq') then
            create extension pgmq;
        elsif v_bundled like '%pgmq.message_record%' then
            execute v_bundled;
        else
            raise exception using
                errcode = 'feature_not_supported',
                message = 'PGMQ is neither installed nor available as an extension on this server',
                hint = 'Install with "mqpg migrate" or with the script of "mqpg migrate sql", which include PGMQ.';
        end if;
    end if;
    if to_regprocedure('pgmq.read(text, integer, integer, jsonb)') is null then
        raise exception using
            errcode = 'feature_not_supported',
            message = 'PGMQ in this database is too old: pgmq.read(queue_name, vt, qty, conditional) is missing',
            hint = 'Update PGMQ to 1.5 or newer: alter extension pgmq update.';
    end if;
    if not exists (select from pgmq.list_queues() where queue_name = 'mqpg_oplog') then
        perform pgmq.create('mqpg_oplog');
    end if;
end $mqpg$;

-- Each read asks for one producer group, so that a group whose checker fails does not slow the others.
create index if not exists q_mqpg_oplog_producer_group on pgmq.q_mqpg_oplog ((message ->> 'producer_group'), vt);
comment on index pgmq.q_mqpg_oplog_producer_group is 'Overdue half messages of one producer group (mqpg)';

-- types/outcome.sql
-- The result of commit() or rollback(): what became of the half message. The caller always gets it
-- (protocol T2, step 3).
create type mqpg.outcome as enum
    ('committed', 'already_committed', 'rolled_back', 'already_rolled_back', 'unknown');
comment on type mqpg.outcome is
    'Result of commit or rollback: the first decision stands, and a repeated one gets an already_… value';

-- types/verdict.sql
-- The answer of a check-back about a local transaction (protocol T3).
create type mqpg.verdict as enum ('commit', 'rollback', 'wait');
comment on type mqpg.verdict is
    'Answer of a check-back; wait means "not known yet" and does not count as a check';

-- types/claim.sql
-- One delivery in flight: a range of offsets that a consumer received and has not acknowledged yet.
-- Values of this type exist only in cursor.claims.
-- An epoch is computed as version * 2^20 + (xid modulo 2^20) when the messages are delivered. A
-- later delivery always has a greater epoch. A delivery that was rolled back has another epoch than
-- the one that reuses its version, because the xid differs. A negative epoch marks a range that no
-- consumer holds, so no receipt matches it.
-- A claim need not hold every offset of its range. `settled` lists offsets that left it; `picked`
-- lists the only offsets that it has, because a filter chose them or because they wait behind a
-- failed message. At most one of the two is set.
create type mqpg.claim as (
    epoch bigint,
    from_offset bigint,     -- inclusive
    to_offset bigint,       -- exclusive
    attempt int,            -- how often this range was delivered, this delivery included
    lease_until timestamptz,-- negative epoch: not delivered before this time; '-infinity': may be delivered at once
    consumer text,
    settled bigint[],       -- offsets inside the range that were nacked and so left the claim
    picked bigint[],        -- null: the whole range; else ascending, from from_offset to to_offset - 1
    key text                -- on_failure block_key: the failed message's key, which all messages of the claim share
);
comment on type mqpg.claim is
    'A delivery in flight: offset range, fencing epoch, attempt and lease';

-- types/delivery.sql
-- One delivered message: a row of what receive() and fetch() return.
create type mqpg.delivery as (
    message_id bigint,
    topic text,
    queue_id int,           -- -1: the message came by the subscription's retry lane
    queue_offset bigint,    -- dense: 0, 1, 2, … in each queue
    key text,
    tag text,
    headers jsonb,
    payload json,
    born_at timestamptz,
    attempt int,            -- 1 for the first delivery
    receipt text            -- the same for all rows of one receive(); null from fetch()
);
comment on type mqpg.delivery is 'A delivered message, with the receipt that acknowledges it';

-- tables/broker.sql
-- The identity of this broker, in one row. Every handle names the broker that issued it.
create table mqpg.broker (
    singleton boolean primary key default true check (singleton),
    broker_id text not null default substr(replace(gen_random_uuid()::text, '-', ''), 1, 12),
    incarnation int not null default 1,
    system_identifier bigint not null,
    installed_at timestamptz not null default clock_timestamp()
);
comment on table mqpg.broker is
    'Identity of this broker: id, incarnation and PostgreSQL system identifier';
comment on column mqpg.broker.singleton is 'Always true: the table has exactly one row';
comment on column mqpg.broker.broker_id is
    '12 hexadecimal digits; the first part of every handle that this broker issues';
comment on column mqpg.broker.incarnation is
    'Number of this broker''s lives: it grows with each promotion, recovery or restore; part of each handle';
comment on column mqpg.broker.system_identifier is
    'The cluster that the rows were written in; append() refuses to work in another one';
insert into mqpg.broker (system_identifier) select system_identifier from pg_control_system();

-- tables/settings.sql
-- Server-wide settings that rarely change. Each default value is written here and nowhere else. The
-- name is plural because PostgreSQL would name the array type of a table "setting" _setting, which
-- would shadow the function mqpg._setting.
create table mqpg.settings (
    name text primary key,
    value text not null,
    least text not null,
    most text not null,
    description text not null
);
comment on table mqpg.settings is 'Server-wide settings of mqpg';
comment on column mqpg.settings.value is 'The current value, as text';
comment on column mqpg.settings.least is 'The smallest allowed value, a number or an interval';
comment on column mqpg.settings.most is 'The greatest allowed value';
insert into mqpg.settings (name, value, least, most, description) values
('segment_ids', '1073741824', '1', '1152921504606846976',
    'batch ids in a commit_log segment; closing one early skips the rest'),
('segment_age', '6 hours', '0 s', '100 years',
    'a commit_log segment older than this is closed, and the next one begins'),
('segments_ahead', '2', '1', '100', 'empty segments that are ready after the current one'),
('segment_ticks', '1073741824', '1', '1152921504606846976', 'ticks in a segment of consume_queue and tick'),
('cursor_slot_age', '6 hours', '0 s', '100 years', 'a cursor slot older than this is replaced by a new one'),
('delayed_slot', '1 day', '10 ms', '100 years', 'length of a slot of the delayed table'),
('dedup_window', '1 hour', '1 s', '1 year', 'two sends with one dedup id within this time store one message'),
('held_limit', '10000', '0', '1000000000',
    'messages that keep() copies out of a segment before it drops it; with more the segment stays'),
('op_log_keep', '7 days', '0 s', '100 years', 'how long decisions outlive their segment'),
('jump_keep', '90 days', '0 s', '100 years',
    'how long reports of skipped offsets and of former dead letters are stored'),
('retry_delay_cap', '1 hour', '1 ms', '100 years', 'longest back-off between two attempts'),
('filter_time', '1 s', '0 s', '1 hour',
    'how long one receive() may search through messages that a filter does not choose'),
('lock_timeout', '5 s', '1 ms', '1 hour', 'how long ack(), nack(), extend() and release() wait for a queue''s lock');

-- tables/segment.sql
-- The partitions of the append-only tables and their life cycle. keep() makes them ahead of time,
-- closes them and drops them.
create table mqpg.segment (
    family text not null,
    segment_no bigint not null,
    lower_bound text not null,
    upper_bound text not null,
    made_at timestamptz not null default clock_timestamp(),
    opened_at timestamptz,
    opened_xid xid8,
    closed_at timestamptz,
    body_dropped_at timestamptz,
    dropped_at timestamptz,
    primary key (family, segment_no)
);
comment on table mqpg.segment is 'Partitions of the append-only tables and their life cycle';
comment on column mqpg.segment.family is
    'log (commit_log, op_log, check_log) | tick (consume_queue, tick, half_tick) | cursor | delayed | dedup';
comment on column mqpg.segment.lower_bound is 'Inclusive, as in the partition''s bound';
comment on column mqpg.segment.upper_bound is 'Exclusive, as in the partition''s bound';
comment on column mqpg.segment.opened_at is
    'When writing into it began; the first row may be younger, never older';
comment on column mqpg.segment.opened_xid is
    'Family log: every transaction that wrote into the segment before has an older xid';
comment on column mqpg.segment.closed_at is 'From this time on no transaction writes into it';
comment on column mqpg.segment.body_dropped_at is
    'When its first table was dropped; decisions and ticks may remain';
comment on column mqpg.segment.dropped_at is 'When its last table was dropped';

-- tables/topic.sql
-- Topics. A name that is used again after drop_topic() gets a new id, and so its queues start at
-- offset 0.
create table mqpg.topic (
    topic_id int generated always as identity primary key,
    name text not null unique,
    queues int not null,
    retention interval not null,
    kind text not null default 'normal',
    max_payload int not null default 1048576,
    paused boolean not null default false,
    message_ttl interval,
    on_expired text not null default 'skip',
    lose_after interval,
    lose_over bigint,
    created_at timestamptz not null default clock_timestamp()
);
comment on table mqpg.topic is
    'Topics: number of ordered queues, retention, payload limit and policies';
comment on column mqpg.topic.queues is 'Number of ordered queues, fixed';
comment on column mqpg.topic.kind is 'normal | relay';
comment on column mqpg.topic.max_payload is 'Greatest size of a payload, in bytes';
comment on column mqpg.topic.paused is 'true: receive() returns nothing to any group';
comment on column mqpg.topic.message_ttl is
    'A message that a group did not get within this time after it became visible expires; null: never';
comment on column mqpg.topic.on_expired is 'skip (counts as consumed) | dead_letter';
comment on column mqpg.topic.lose_after is
    'Unread messages may be dropped this long after their segment was closed; null: never';
comment on column mqpg.topic.lose_over is
    'Unread messages of a group may be dropped beyond this many bytes; null: never';

-- tables/producer_group.sql
-- Producer groups, which say when and how undecided half messages are checked back (protocol T3).
create table mqpg.producer_group (
    producer_group_id int generated always as identity primary key,
    name text not null unique,
    check_after interval not null,
    max_checks int not null,
    on_exhausted text not null,
    checker text not null,
    checker_target text,
    ledger_since bigint not null default 0,
    created_at timestamptz not null default clock_timestamp()
);
comment on table mqpg.producer_group is
    'Producer groups: when and by whom undecided half messages are checked';
comment on column mqpg.producer_group.check_after is
    'How long after prepare() an undecided half is overdue';
comment on column mqpg.producer_group.max_checks is
    'Checks without an answer until on_exhausted applies';
comment on column mqpg.producer_group.on_exhausted is 'park | rollback';
comment on column mqpg.producer_group.checker is 'due_checks | ledger | function | url';
comment on column mqpg.producer_group.checker_target is
    'Checker function: its name; checker url: a name in the compensator''s configuration';
comment on column mqpg.producer_group.ledger_since is
    'Half messages with a batch id up to this were prepared under another ledger and are parked';

-- tables/subscription.sql
-- Subscriptions: a consumer group that reads a topic.
-- A broadcast group has one row of its own and one row for each member. Each member row has its own
-- positions, retry lane and locks, like any subscription, and all rows of the group have the same
-- settings. The group's own row only holds the positions that a new member starts from. It reads
-- nothing, so no message is stored for it.
create table mqpg.subscription (
    subscription_id int generated always as identity primary key,
    consumer_group text not null,
    topic_id int not null references mqpg.topic on delete cascade,
    member text not null default '',
    member_of int references mqpg.subscription on delete cascade,
    mode text not null,
    start text not null,
    filter jsonpath,
    tags text [],
    max_attempts int not null,
    retry_delay interval not null,
    on_failure text not null default 'skip',
    paused boolean not null default false,
    retries_from timestamptz not null default '-infinity',
    created_at timestamptz not null default clock_timestamp(),
    unique (topic_id, consumer_group, member)
);
comment on table mqpg.subscription is
    'Subscriptions: consumer group and topic, mode, filter and retry policy';
comment on column mqpg.subscription.member is
    'Mode broadcast: the consumer''s name; empty in the group''s own row and in other modes';
comment on column mqpg.subscription.member_of is
    'Mode broadcast: the group''s own row; null in that row and in other modes';
comment on column mqpg.subscription.mode is 'exclusive | shared | pinned | broadcast';
comment on column mqpg.subscription.start is 'As given to subscribe(): earliest | latest | a time';
comment on column mqpg.subscription.filter is 'jsonpath that chooses messages; null: all';
comment on column mqpg.subscription.tags is 'Tags that choose messages; null: all';
comment on column mqpg.subscription.max_attempts is
    'Deliveries until a message becomes a dead letter';
comment on column mqpg.subscription.retry_delay is
    'Time until the second attempt; doubles with each further one';
comment on column mqpg.subscription.on_failure is 'skip | block_key | block_queue';
comment on column mqpg.subscription.retries_from is
    'Retries that were written before this time are purged';
create index subscription_consumer_group on mqpg.subscription (consumer_group);
create index subscription_member_of on mqpg.subscription (member_of) where member_of is not null;

-- tables/commit_log.sql
-- Every message body, append-only. One row is a record batch of up to 1024 messages, and a
-- message's id is batch_id * 1024 + its position in the batch.
-- A writer takes its xid first and its batch id second. The other order would break commit order
-- (I6), and the appender, which skips all batch ids up to floor_id, could miss the row. The
-- sequence has CACHE 1 for the same reason.
create sequence mqpg.batch_id as bigint minvalue 1 start 1 cache 1;
comment on sequence mqpg.batch_id is 'Source of batch ids and of op_log.order_no, so that both share one order';

create table mqpg.commit_log (
    batch_id bigint not null,
    xid xid8 not null,
    born_at timestamptz not null,
    topic_id int not null,
    producer_group_id int,
    incarnation int,
    queue_id smallint not null,
    n smallint not null,
    kind "char" not null,
    nonce uuid,
    check_at timestamptz,
    delay interval,
    keys text [],
    tags text [],
    headers jsonb [],
    payloads json [] not null,
    relay boolean
) partition by range (batch_id);
comment on table mqpg.commit_log is
    'Commit log: all message bodies in record batches, append-only, partitioned by batch id';
comment on column mqpg.commit_log.batch_id is 'From the sequence batch_id, drawn after xid';
comment on column mqpg.commit_log.xid is
    'The writing transaction; the appender compares it with its snapshots';
comment on column mqpg.commit_log.producer_group_id is 'Half messages only';
comment on column mqpg.commit_log.incarnation is
    'Half messages only: the broker''s incarnation when it was prepared, part of its handle';
comment on column mqpg.commit_log.queue_id is
    'The topic''s queue that all messages of the batch belong to';
comment on column mqpg.commit_log.n is 'Number of messages in the batch, 1 to 1024';
comment on column mqpg.commit_log.kind is
    'n normal | h half message | d delayed | f final payload that a commit brought for a half';
comment on column mqpg.commit_log.nonce is
    'Half messages only: the random part of the handle, so that it cannot be guessed';
comment on column mqpg.commit_log.check_at is
    'Half messages only: from this time on an undecided one is overdue';
comment on column mqpg.commit_log.delay is
    'Half messages only: time between the commit and the delivery; null: none';
comment on column mqpg.commit_log.keys is
    'One element per message (null: without key); null when no message has a key';
comment on column mqpg.commit_log.tags is 'One element per message; null when no message has a tag';
comment on column mqpg.commit_log.headers is
    'One element per message; null when no message has headers';
comment on column mqpg.commit_log.payloads is 'One element per message, byte for byte as sent';
comment on column mqpg.commit_log.relay is
    'true: half messages of a relay topic, whose phases also travel as messages; else null';

create unique index commit_log_batch on mqpg.commit_log (batch_id);
create index commit_log_normal_xid on mqpg.commit_log (xid) where kind = 'n';
create index commit_log_half_xid on mqpg.commit_log (xid) where kind = 'h';
create index commit_log_keys on mqpg.commit_log using gin (keys) where keys is not null;

-- lz4 where the server has it. pglz would cost a third of the write speed, so the fallback is no compression.
do $$
declare
    v_column text;
begin
    foreach v_column in array array['payloads', 'headers', 'keys', 'tags'] loop
        begin
            execute format('alter table mqpg.commit_log alter column %I set compression lz4', v_column);
        exception when feature_not_supported or invalid_parameter_value then
            execute format('alter table mqpg.commit_log alter column %I set storage external', v_column);
        end;
    end loop;
end $$;

-- tables/op_log.sql
-- Decisions about half messages and delayed messages, append-only. The first writer of a primary
-- key wins (I3).
create table mqpg.op_log (
    message_id bigint not null,
    order_no bigint not null,
    xid xid8 not null,
    deliver_id bigint,
    at timestamptz not null,
    visible_at timestamptz,
    topic_id int not null,
    queue_id smallint not null,
    stage smallint not null,
    op "char" not null,
    decided_by text not null,
    reason text,
    primary key (message_id, stage)
) partition by range (message_id);
comment on table mqpg.op_log is
    'Op log: decisions about half and delayed messages, append-only; the first decision stands';
comment on column mqpg.op_log.order_no is
    'From the sequence batch_id, one number a call: says when the decision was made';
comment on column mqpg.op_log.deliver_id is
    'Id of the body where a commit brought a final payload, or of the message a relay topic sends';
comment on column mqpg.op_log.visible_at is
    'Commit with a delay: due by its row in delayed. infinity: relay topic, due by a message of its own';
comment on column mqpg.op_log.stage is
    '0: decision about a half message; 1: decision about a delayed message';
comment on column mqpg.op_log.op is 'Stage 0: c commit | b rollback. Stage 1: d due | r recalled';
comment on column mqpg.op_log.decided_by is 'producer | checker | admin | appender';
create index op_log_commit_xid on mqpg.op_log (xid) where op = 'c' and visible_at is null;

-- tables/check_log.sql
-- What happened in the check-back of each overdue half message, append-only.
create table mqpg.check_log (
    message_id bigint not null,
    at timestamptz not null,
    event text not null,
    by text not null,
    reason text
) partition by range (message_id);
comment on table mqpg.check_log is 'Check-back history of half messages, append-only';
comment on column mqpg.check_log.message_id is 'Message id of the half';
comment on column mqpg.check_log.event is
    'asked (one check) | waited (that ask does not count) | waited late (it does) | parked | rearmed | settled';
comment on column mqpg.check_log.by is
    'The checker or person: ledger, function <name>, due_checks, admin, …';
comment on column mqpg.check_log.reason is
    'What the checker answered, why it failed, or why an administrator decided';
create index check_log_message on mqpg.check_log (message_id, at);

-- tables/consume_queue.sql
-- What each queue delivers: runs of consecutive message ids, at dense offsets 0, 1, 2, … Only the
-- appender writes here.
-- Run i holds the messages first_ids[i], first_ids[i] + 1, … at the offsets from base_offset +
-- starts[i] on. The last run ends at base_offset + n - 1.
create table mqpg.consume_queue (
    base_offset bigint not null,
    tick_id bigint not null,
    topic_id int not null,
    subscription_id int not null default 0,
    n int not null,
    queue_id smallint not null,
    first_ids bigint [] not null,
    starts int [] not null,
    deliver_ids bigint [],
    attempts smallint [],
    primary key (topic_id, queue_id, subscription_id, base_offset, tick_id)
) partition by range (tick_id);
comment on table mqpg.consume_queue is
    'Consume queues: dense offsets to runs of message ids, append-only, partitioned by tick id';
comment on column mqpg.consume_queue.base_offset is 'Offset of the row''s first message';
comment on column mqpg.consume_queue.tick_id is 'The tick that appended the row';
comment on column mqpg.consume_queue.subscription_id is
    '0: a queue of the topic; else the retry lane of this subscription';
comment on column mqpg.consume_queue.n is 'Number of messages in the row';
comment on column mqpg.consume_queue.queue_id is '-1: the retry lane of subscription_id';
comment on column mqpg.consume_queue.first_ids is 'Per run, the message id that it begins with';
comment on column mqpg.consume_queue.starts is 'Per run, its first offset minus base_offset';
comment on column mqpg.consume_queue.deliver_ids is
    'Per run, the message id that the body lies under; null: under first_ids';
comment on column mqpg.consume_queue.attempts is
    'Retry lanes: per run, the number of the delivery attempt; else null';
create index consume_queue_tick on mqpg.consume_queue (tick_id, topic_id, queue_id);

-- tables/queue_tail.sql
-- The first and last offsets of queues, which keep() notes before it drops rows of consume_queue.
-- Only keep() writes here.
create table mqpg.queue_tail (
    topic_id int not null,
    queue_id smallint not null,
    subscription_id int not null,
    next_offset bigint not null default 0,
    oldest_offset bigint not null default 0,
    primary key (topic_id, queue_id, subscription_id)
);
comment on table mqpg.queue_tail is 'Oldest and next offsets of queues, noted by keep()';
comment on column mqpg.queue_tail.queue_id is '-1: the retry lane of subscription_id';
comment on column mqpg.queue_tail.subscription_id is '0: a queue of the topic';
comment on column mqpg.queue_tail.next_offset is
    'Noted before a partition is dropped, so that the queue''s next offset never goes back';
comment on column mqpg.queue_tail.oldest_offset is
    'Messages before it are past retention and no longer needed, though their rows may still exist';

-- tables/tick.sql
-- One row for each call of append() that moved something. The newest row is the appender's whole
-- state.
create table mqpg.tick (
    tick_id bigint not null primary key,
    xid xid8 not null,
    snapshot pg_snapshot not null,
    snapshot_xmax xid8 not null,
    batch_seq bigint not null,
    floor_id bigint not null,
    due_until timestamptz not null,
    messages bigint not null,
    topic_ids int [] not null,
    at timestamptz not null
) partition by range (tick_id);
comment on table mqpg.tick is 'Ticks of the appender: snapshot, floor and due time, append-only';
comment on column mqpg.tick.xid is
    'The appending transaction, which got its xid after batch_seq was read';
comment on column mqpg.tick.snapshot is 'All rows visible in it have their offsets';
comment on column mqpg.tick.snapshot_xmax is 'pg_snapshot_xmax(snapshot), for the index';
comment on column mqpg.tick.batch_seq is
    'The batch id sequence, read before the snapshot was taken';
comment on column mqpg.tick.floor_id is
    'Rows that a later append() may append have greater batch ids';
comment on column mqpg.tick.due_until is 'Delayed messages up to this time are appended';
comment on column mqpg.tick.messages is 'Number of messages appended';
comment on column mqpg.tick.topic_ids is 'Topics that got messages';
create index tick_snapshot_xmax on mqpg.tick (snapshot_xmax);
-- snapshot_xmax is the newest finished xid plus one, so a running transaction may have a greater xid. Batch
-- ids up to batch_seq are therefore known to be finished only when all xids below this row's xid are.
create index tick_xid on mqpg.tick (xid);

-- tables/half_tick.sql
-- One row for each time undecided half messages were put into the op-log queue. It works by the
-- appender's snapshot rule, with ticks of its own.
create table mqpg.half_tick (
    half_tick_id bigint not null primary key,
    xid xid8 not null,
    snapshot pg_snapshot not null,
    snapshot_xmax xid8 not null,
    batch_seq bigint not null,
    floor_id bigint not null,
    entries bigint not null,
    at timestamptz not null
) partition by range (half_tick_id);
comment on table mqpg.half_tick is
    'Ticks of the op-log queue: which half messages were looked at, append-only';
comment on column mqpg.half_tick.xid is
    'The transaction itself, which got its xid after batch_seq was read; see tick';
comment on column mqpg.half_tick.snapshot is
    'Half messages visible in it are decided or have an entry in the op-log queue';
comment on column mqpg.half_tick.snapshot_xmax is 'pg_snapshot_xmax(snapshot), for the index';
comment on column mqpg.half_tick.batch_seq is
    'The batch id sequence, read before the snapshot was taken';
comment on column mqpg.half_tick.floor_id is 'New half messages have greater batch ids';
comment on column mqpg.half_tick.entries is 'Number of entries that were written';
create index half_tick_snapshot_xmax on mqpg.half_tick (snapshot_xmax);
create index half_tick_xid on mqpg.half_tick (xid);

-- tables/delayed.sql
-- What becomes visible later: delayed sends, commits with a delay, and retries. One row is one
-- batch or run, due at visible_at.
create table mqpg.delayed (
    visible_at timestamptz not null,
    xid xid8 not null,
    first_id bigint not null,
    deliver_id bigint,
    written_at timestamptz not null,
    topic_id int not null,
    subscription_id int not null default 0,
    queue_id smallint not null,
    n smallint not null,
    attempt smallint not null default 1,
    reason text,
    consumer text
) partition by range (written_at);
comment on table mqpg.delayed is
    'Delayed messages and retries, append-only, partitioned by the time of writing';
comment on column mqpg.delayed.visible_at is
    'The first append() after this time appends the messages';
comment on column mqpg.delayed.first_id is 'Message id that the run begins with';
comment on column mqpg.delayed.deliver_id is
    'Message id that the body of first_id lies under; null: under first_id';
comment on column mqpg.delayed.subscription_id is
    '0: a delayed message; else a retry for this subscription';
comment on column mqpg.delayed.queue_id is '-1 for a retry';
comment on column mqpg.delayed.n is 'Number of messages: first_id, first_id + 1, …';
comment on column mqpg.delayed.attempt is
    'Number of the attempt that the coming delivery is; 1 after redrive()';
comment on column mqpg.delayed.reason is 'Retries: why the attempt before failed';
comment on column mqpg.delayed.consumer is 'Retries: the consumer whose attempt failed';
create index delayed_visible_at on mqpg.delayed (visible_at);
create index delayed_xid on mqpg.delayed (xid);
create index delayed_first_id on mqpg.delayed (first_id);

-- tables/cursor.sql
-- The position of each subscription on each queue. Every receive, ack, nack and so on inserts
-- version + 1 with the whole state, so that no dead rows build up while an old transaction holds
-- vacuum back.
-- All messages below `committed` are done. From `claimed` on, no message was delivered yet. Between
-- the two, a message is done unless it is in a claim.
-- keep() copies the newest versions into a new slot and then drops the old slot.
create table mqpg.cursor (
    version bigint not null,
    committed bigint not null,
    claimed bigint not null,
    at timestamptz not null,
    epoch bigint,
    subscription_id int not null,
    slot int not null,
    queue_id smallint not null,
    action "char" not null,         -- s start, r receive, t take-over, a ack, n nack, e extend, l release,
                                    -- f filtered, p pin, u unpin, d dead-letter, q seek, purge or policy, x expired,
                                    -- i new incarnation, c closed here, k carried here
    owner text,
    claims mqpg.claim [] not null,
    failed bigint [],
    reason text,
    primary key (subscription_id, queue_id, version, slot)
) partition by range (slot);
comment on table mqpg.cursor is
    'Cursors: versioned positions and claims of subscriptions, append-only, partitioned by slot';
comment on column mqpg.cursor.version is
    '1, 2, 3, … per subscription and queue; the greatest is the current state';
comment on column mqpg.cursor.committed is 'All messages below this offset are done';
comment on column mqpg.cursor.claimed is 'No message from this offset on was delivered yet';
comment on column mqpg.cursor.epoch is
    'Epoch of the claim that this version changed; null where none';
comment on column mqpg.cursor.slot is 'The partition, a period of about cursor_slot_age';
comment on column mqpg.cursor.queue_id is '-1: the subscription''s retry lane';
comment on column mqpg.cursor.owner is
    'Mode pinned: the consumer that owns the queue until unpin()';
comment on column mqpg.cursor.claims is
    'Claims in flight, ascending by from_offset, at most 64 of them open';
comment on column mqpg.cursor.failed is
    'A nack with on_failure block_key or block_queue: the offsets that failed and are retried in place';
comment on column mqpg.cursor.reason is 'Why the messages in failed did';
create index cursor_moved on mqpg.cursor (subscription_id, queue_id, version) where action = 'q';

-- tables/dedup.sql
-- The dedup ids of recent sends. A unique key holds inside one partition only, so each id is
-- written to the current time slot and to the next one. Two sends within one window therefore
-- always meet in a slot.
create table mqpg.dedup (
    message_id bigint not null,
    slot bigint not null,
    topic_id int not null,
    dedup_id text not null,
    primary key (topic_id, dedup_id, slot)
) partition by range (slot);
comment on table mqpg.dedup is
    'Dedup ids of sends within the dedup window, append-only, partitioned by slot';
comment on column mqpg.dedup.message_id is 'The message that was stored first under the id';
comment on column mqpg.dedup.slot is
    'Time in units of the setting dedup_window since 1970, rounded down';

-- tables/dead_letter.sql
-- Messages whose attempts are used up, or that expired, per subscription. Their bodies stay in the
-- commit log, or are copied when their segment is dropped.
-- redrive() and discard_dead_letters() take a row out of here and keep a record of it.
create table mqpg.dead_letter (
    subscription_id int not null references mqpg.subscription on delete cascade,
    message_id bigint not null,
    deliver_id bigint not null,
    queue_id smallint not null,
    attempts int not null,
    reason text,
    history jsonb,
    died_at timestamptz not null default clock_timestamp(),
    primary key (subscription_id, message_id)
);
comment on table mqpg.dead_letter is
    'Dead letters of each subscription, with the last reason and the known attempts';
comment on column mqpg.dead_letter.deliver_id is 'Message id that the body lies under';
comment on column mqpg.dead_letter.queue_id is 'The topic''s queue that the message came by';
comment on column mqpg.dead_letter.attempts is 'How often the message was delivered';
comment on column mqpg.dead_letter.reason is 'Why the last attempt failed';
comment on column mqpg.dead_letter.history is
    '[{attempt, delivered_at, consumer, failed_at, reason}, …], as far as it is known';
create index dead_letter_latest on mqpg.dead_letter (subscription_id, died_at, message_id);

-- tables/dropped_topic.sql
-- Topics that were dropped. Their ids remain in the log until their segments are dropped. A message
-- whose transaction was open during the drop belongs to no existing topic, which the view orphans
-- shows.
create table mqpg.dropped_topic (
    topic_id int primary key,
    name text not null,
    forced boolean not null,
    dropped_at timestamptz not null default clock_timestamp(),
    by text not null default session_user
);
comment on table mqpg.dropped_topic is 'Topics that were dropped';
comment on column mqpg.dropped_topic.topic_id is 'The id that the topic had';
comment on column mqpg.dropped_topic.forced is 'Whether drop_topic() was called with force';

-- tables/former_letter.sql
-- Dead letters that redrive() or discard_dead_letters() took out, append-only, so that trace() and
-- the audit still know them. keep() deletes rows that are older than the setting `jump_keep`.
create table mqpg.former_letter (
    subscription_id int not null,
    message_id bigint not null,
    attempts int not null,
    reason text,
    history jsonb,
    died_at timestamptz not null,
    left_at timestamptz not null default clock_timestamp(),
    fate text not null check (fate in ('redriven', 'discarded')),
    by text not null default session_user
);
comment on table mqpg.former_letter is 'Dead letters that were redriven or discarded';
comment on column mqpg.former_letter.died_at is 'When it became a dead letter';
comment on column mqpg.former_letter.left_at is 'When it was redriven or discarded';
comment on column mqpg.former_letter.fate is 'redriven | discarded';
create index former_letter_message on mqpg.former_letter (message_id);

-- tables/jump.sql
-- Ranges of offsets that a subscription was moved over on purpose, by a person or by a policy. It
-- will never get the messages in them that it did not get before. With `back`, it was moved back
-- instead and may get them again. A later move back shortens older rows.
-- The names are copied, so that the report outlives the subscription. keep() deletes rows that are
-- older than the setting `jump_keep`.
create table mqpg.jump (
    jump_id bigint generated always as identity primary key,
    at timestamptz not null default clock_timestamp(),
    subscription_id int not null,
    topic_id int not null,
    consumer_group text not null,
    member text not null,
    topic text not null,
    queue_id smallint not null,
    from_offset bigint not null,
    to_offset bigint not null,
    why text not null check (why in ('seek', 'purge', 'expired', 'age', 'size')),
    back boolean not null default false,
    by text not null default session_user
);
comment on table mqpg.jump is
    'Ranges of offsets that a subscription was moved over by seek, purge_topic, expiry or policy';
comment on column mqpg.jump.consumer_group is 'Name of the consumer group, as it was';
comment on column mqpg.jump.member is 'Mode broadcast: name of the consumer; else empty';
comment on column mqpg.jump.topic is 'Name of the topic, as it was';
comment on column mqpg.jump.queue_id is '-1: the retry lane';
comment on column mqpg.jump.from_offset is 'First offset of the range';
comment on column mqpg.jump.to_offset is 'Offset after the last one of the range';
comment on column mqpg.jump.why is
    'seek | purge | expired (message_ttl) | age (lose_after) | size (lose_over); the last two are losses';
comment on column mqpg.jump.back is 'true: moved back, so the messages may come again';
create index jump_subscription on mqpg.jump (subscription_id, queue_id, to_offset);

-- tables/held.sql
-- The few messages that must stay readable after their commit_log segment was dropped, one row per
-- message. Readers look here when the segment is gone.
create table mqpg.held (
    message_id bigint primary key,
    xid xid8 not null,
    born_at timestamptz not null,
    topic_id int not null,
    producer_group_id int,
    incarnation int,
    queue_id smallint not null,
    kind "char" not null,
    nonce uuid,
    check_at timestamptz,
    delay interval,
    key text,
    tag text,
    headers jsonb,
    payload json not null,
    relay boolean,
    held_at timestamptz not null default clock_timestamp()
);
comment on table mqpg.held is 'Messages that outlive their commit_log segment';
comment on column mqpg.held.xid is 'The transaction that wrote the message';
comment on column mqpg.held.kind is
    'As in commit_log: n normal | h half message | d delayed | f final payload';
comment on column mqpg.held.relay is 'true: a half message of a relay topic; else null';
comment on column mqpg.held.held_at is 'When keep() copied it out of its segment';
create index held_topic_key on mqpg.held (topic_id, key);

-- tables/ledger.sql
-- The ledger of producers whose business tables are in this database: one row per local
-- transaction, which writes it first. A check-back inserts a fence under the same key, so that only
-- one of the two can succeed.
create table mqpg.ledger (
    handle text primary key,
    entry text not null default 'local' check (entry in ('local', 'fence')),
    at timestamptz not null default clock_timestamp()
);
comment on table mqpg.ledger is
    'Handles of local transactions in this database, and the fences of check-backs';
comment on column mqpg.ledger.entry is
    'local: the local transaction committed | fence: a check-back came first, so it can no longer commit';

-- tables/worker.sql
-- The heartbeats of worker processes. The view worker_status says which of them are alive.
create table mqpg.worker (
    worker_id text primary key,
    role text not null,
    host text not null,
    pid int not null,
    state text not null,
    detail jsonb not null default '{}',
    started_at timestamptz not null default clock_timestamp(),
    seen_at timestamptz not null default clock_timestamp()
);
comment on table mqpg.worker is 'Heartbeats of worker processes; see the view worker_status';
comment on column mqpg.worker.role is 'appender | compensator | keeper | consumer';
comment on column mqpg.worker.state is 'active | standby | stopped';
comment on column mqpg.worker.detail is 'What the worker reports about its work';
comment on column mqpg.worker.seen_at is 'Time of the last heartbeat';

-- tables/oplog_queue.sql
-- Indexes by message id on the op-log queue and its archive, because check_wait(), rearm() and
-- settle() name one half message.
create index if not exists q_mqpg_oplog_message on pgmq.q_mqpg_oplog (((message ->> 'message_id')::bigint));
comment on index pgmq.q_mqpg_oplog_message is 'Overdue half messages by id (mqpg)';
create index if not exists a_mqpg_oplog_message on pgmq.a_mqpg_oplog (((message ->> 'message_id')::bigint));
comment on index pgmq.a_mqpg_oplog_message is 'Parked half messages by id (mqpg)';

-- functions/validate/_check_batch.sql
-- Checks the arrays of send_batch and prepare_batch (MQ001, MQ010).
-- Locks: none. Cost: one look at each key and tag.
create function mqpg._check_batch(
    max_payload int, payloads text [], keys text [], tags text [], headers jsonb []
) returns void
language plpgsql immutable as $$
declare
    v_n int := cardinality(_check_batch.payloads);
begin
    perform mqpg._check_payloads(_check_batch.payloads, _check_batch.max_payload);
    if _check_batch.keys is not null then
        perform mqpg._check_shape('keys', _check_batch.keys, v_n);
        perform mqpg._check_labels('keys', _check_batch.keys);
    end if;
    if _check_batch.tags is not null then
        perform mqpg._check_shape('tags', _check_batch.tags, v_n);
        perform mqpg._check_labels('tags', _check_batch.tags);
    end if;
    perform mqpg._check_shape('headers', _check_batch.headers, v_n);
end
$$;
comment on function mqpg._check_batch(int, text [], text [], text [], jsonb [])
    is 'Internal: refuse faulty arrays of a batch';

-- functions/validate/_check_filter.sql
-- Refuses a filter that names a variable other than $headers, $key and $tag (MQ020; it would fail at run time only
-- where it gets that far), and tags that are null or not a plain list (MQ001).
-- Locks: none. Cost: one regular expression.
create function mqpg._check_filter(filter jsonpath, tags text []) returns void
language plpgsql immutable as $$
declare
    v_name text;
begin
    -- quoted words in the order of the text: a variable is one behind a $
    select t.token[1] into v_name
    from regexp_matches(_check_filter.filter::text, '(\$?"(?:[^"\\]|\\.)*")', 'g') as t(token)
    where t.token[1] like '$%' and t.token[1] not in ('$"headers"', '$"key"', '$"tag"')
    limit 1;
    if found then
        raise exception using errcode = 'MQ020', message = format(
            'filter may use the variables $headers, $key and $tag, not %s', v_name),
            hint = 'The payload itself is $.';
    end if;
    if array_ndims(_check_filter.tags) > 1 or array_position(_check_filter.tags, null) is not null then
        raise exception using errcode = 'MQ001',
            message = 'tags must be a one-dimensional array without null; leave it out for messages of any tag or none';
    end if;
end
$$;
comment on function mqpg._check_filter(jsonpath, text []) is 'Internal: refuse a filter that cannot work';

-- functions/validate/_check_labels.sql
-- Refuses keys and tags over 512 bytes (MQ001): they are indexed and repeated in every delivery.
-- Locks: none. Cost: one look at each.
create function mqpg._check_labels(argument text, labels text []) returns void
language plpgsql immutable as $$
begin
    if exists (select from unnest(_check_labels.labels) u(l) where octet_length(u.l) > 512) then
        raise exception using errcode = 'MQ001',
            message = format('%s must not be longer than 512 bytes', _check_labels.argument);
    end if;
end
$$;
comment on function mqpg._check_labels(text, text []) is 'Internal: refuse overlong keys and tags';

-- functions/validate/_check_name.sql
-- Refuses names of topics and groups that are null (MQ001) or outside the allowed form (MQ002).
-- Locks: none. Cost: one regular expression.
create function mqpg._check_name(argument text, value text) returns void
language plpgsql immutable as $$
begin
    if _check_name.value is null then
        raise exception using errcode = 'MQ001', message = format('%s must not be null', _check_name.argument);
    end if;
    if _check_name.value !~ '^[A-Za-z0-9][A-Za-z0-9_.-]{0,126}$' then
        raise exception using errcode = 'MQ002',
            message = format('%s %L is not a valid name', _check_name.argument, left(_check_name.value, 130)),
            hint = 'Names are 1 to 127 letters, digits, "_", "." or "-" and begin with a letter or digit.';
    end if;
end
$$;
comment on function mqpg._check_name(text, text) is 'Internal: refuse an invalid name of a topic or group';

-- functions/validate/_check_own_transaction.sql
-- Refuses callers that already have an xid or run above READ COMMITTED (MQ015). A caller's own xid is not
-- in its snapshot's list of running ones, so whatever it wrote would count as appended and be lost.
-- Locks: none. Cost: none to speak of.
create function mqpg._check_own_transaction(function_name text) returns void
language plpgsql as $$
begin
    if pg_current_xact_id_if_assigned() is not null then
        raise exception using errcode = 'MQ015', message = format(
            '%s() must run in a transaction of its own: this one has written already',
            _check_own_transaction.function_name);
    end if;
    if current_setting('transaction_isolation') <> 'read committed' then
        raise exception using errcode = 'MQ015', message = format(
            '%s() must run in a READ COMMITTED transaction, not %s', _check_own_transaction.function_name,
            upper(current_setting('transaction_isolation')));
    end if;
end
$$;
comment on function mqpg._check_own_transaction(text) is 'Internal: refuse a caller inside a larger transaction';

-- functions/validate/_check_payloads.sql
-- Refuses a null payload (MQ001), one over the topic's limit (MQ010), or an array that is not flat (MQ001).
-- Locks: none. Cost: the sizes are looked at one by one only where the whole exceeds the limit.
create function mqpg._check_payloads(payloads text [], max_payload int) returns void
language plpgsql immutable as $$
declare
    v_at bigint;
    v_size int;
begin
    if _check_payloads.payloads is null then
        raise exception using errcode = 'MQ001', message = 'payloads must not be null';
    end if;
    if array_ndims(_check_payloads.payloads) > 1 then
        raise exception using errcode = 'MQ001', message = 'payloads must be a one-dimensional array';
    end if;
    if array_position(_check_payloads.payloads, null) is not null then
        raise exception using errcode = 'MQ001', message = format(
            'payloads[%s] must not be null', array_position(_check_payloads.payloads, null));
    end if;
    if pg_column_size(_check_payloads.payloads) > _check_payloads.max_payload then
        select u.o, octet_length(u.p) into v_at, v_size
        from unnest(_check_payloads.payloads) with ordinality as u(p, o)
        where octet_length(u.p) > _check_payloads.max_payload
        order by u.o limit 1;
        if found then
            raise exception using errcode = 'MQ010', message = format(
                'payloads[%s] has %s bytes; the topic allows %s', v_at, v_size, _check_payloads.max_payload);
        end if;
    end if;
end
$$;
comment on function mqpg._check_payloads(text [], int) is 'Internal: refuse null and oversized payloads';

-- functions/validate/_check_range.sql
-- Refuses a number that is null or outside least..greatest (MQ001), naming the argument.
-- Locks: none. Cost: none to speak of.
create function mqpg._check_range(argument text, value bigint, lowest bigint, highest bigint) returns void
language plpgsql immutable as $$
begin
    if _check_range.value is null or _check_range.value not between _check_range.lowest and _check_range.highest then
        raise exception using errcode = 'MQ001', message = format(
            '%s must be between %s and %s, not %s', _check_range.argument, _check_range.lowest,
            _check_range.highest, coalesce(_check_range.value::text, 'null'));
    end if;
end
$$;
comment on function mqpg._check_range(text, bigint, bigint, bigint) is 'Internal: refuse a number out of range';

-- functions/validate/_check_setting.sql
-- Trigger on settings: refuses a value that is no number or no interval, or out of its range (MQ001). lock_timeout is
-- stored as PostgreSQL's own setting of that name is written.
-- Locks: none. Cost: none to speak of.
create function mqpg._check_setting() returns trigger
language plpgsql as $$
declare
    v_good boolean := false;
begin
    begin
        if new.least ~ '^[0-9]+$' then
            v_good := new.value ~ '^[0-9]{1,19}$'
                and new.value::numeric between new.least::numeric and new.most::numeric;
        else
            v_good := new.value::interval between new.least::interval and new.most::interval;
        end if;
    exception when invalid_datetime_format or datetime_field_overflow or interval_field_overflow then
        null;
    end;
    if not v_good then
        raise exception using errcode = 'MQ001', message = format(
            'setting %s must be %s from %s to %s, not %L', new.name,
            case when new.least ~ '^[0-9]+$' then 'a number' else 'an interval' end, new.least, new.most, new.value);
    end if;
    if new.name = 'lock_timeout' then
        new.value := ceil(extract(epoch from new.value::interval) * 1000) || ' ms';
    end if;
    return new;
end
$$;
comment on function mqpg._check_setting() is 'Internal: refuse invalid settings';

-- functions/validate/_check_shape.sql
-- Checks the shape of a batch argument: one dimension and as many elements as there are payloads (MQ001).
-- Locks: none. Cost: none to speak of.
create function mqpg._check_shape(argument text, value anyarray, n int) returns void
language plpgsql immutable as $$
begin
    if _check_shape.value is not null
        and (array_ndims(_check_shape.value) > 1 or cardinality(_check_shape.value) <> _check_shape.n) then
        raise exception using errcode = 'MQ001', message = format(
            '%s must be a one-dimensional array of %s elements, one a payload, not %s', _check_shape.argument,
            _check_shape.n, cardinality(_check_shape.value));
    end if;
end
$$;
comment on function mqpg._check_shape(text, anyarray, int) is 'Internal: refuse a batch argument of another length';

-- functions/validate/_check_target.sql
-- Refuses a position that is neither earliest, latest nor a time (MQ001).
-- Locks: none. Cost: none to speak of.
create function mqpg._check_target(argument text, target text) returns void
language plpgsql stable as $$
begin
    if _check_target.target is null then
        raise exception using errcode = 'MQ001', message = format('%s must not be null', _check_target.argument);
    end if;
    if _check_target.target not in ('earliest', 'latest') then
        perform _check_target.target::timestamptz;
    end if;
exception when invalid_datetime_format or datetime_field_overflow or invalid_time_zone_displacement_value
    or invalid_parameter_value then
    raise exception using errcode = 'MQ001', message = format(
        '%s must be earliest, latest or a time, not %L', _check_target.argument, left(_check_target.target, 100));
end
$$;
comment on function mqpg._check_target(text, text) is 'Internal: refuse what is no position';

-- functions/validate/_interval.sql
-- Refuses an interval that is null, shorter than `lowest` or longer than 100 years (MQ001).
-- Locks: none. Cost: none to speak of.
create function mqpg._interval(argument text, value interval, lowest interval) returns void
language plpgsql immutable as $$
begin
    if _interval.value is null or _interval.value < _interval.lowest or _interval.value > interval '100 years' then
        raise exception using errcode = 'MQ001', message = format(
            '%s must be an interval from %s to 100 years, not %s', _interval.argument, _interval.lowest,
            coalesce(_interval.value::text, 'null'));
    end if;
end
$$;
comment on function mqpg._interval(text, interval, interval) is 'Internal: refuse an interval out of range';

-- functions/lookup/_lock_topic.sql
-- Keeps keep() from moving a topic's oldest offsets, for who is about to begin at one of them.
-- Locks: 1836150838, topic_id, shared, to the end of the transaction, waiting up to the setting lock_timeout (55P03).
-- Cost: none to speak of.
create function mqpg._lock_topic(topic_id int) returns void
language plpgsql as $$
declare
    v_timeout text;
begin
    if not pg_try_advisory_xact_lock_shared(1836150838, _lock_topic.topic_id) then
        v_timeout := mqpg._wait_as_set();
        perform pg_advisory_xact_lock_shared(1836150838, _lock_topic.topic_id);
        perform set_config('lock_timeout', v_timeout, true);
    end if;
end
$$;
comment on function mqpg._lock_topic(int) is 'Internal: keep a topic''s oldest offsets where they are';

-- functions/lookup/_lock_group.sql
-- Waits for members that are joining a broadcast group, up to the setting lock_timeout (55P03), and lets nobody join
-- until the end of the transaction: what is done to all members next leaves none out. Nothing in other modes.
-- Locks: the group's row, FOR UPDATE (_member() takes KEY SHARE). Cost: one row.
create function mqpg._lock_group(consumer_group mqpg.subscription) returns void
language plpgsql as $$
declare
    v_timeout text;
begin
    if _lock_group.consumer_group.mode <> 'broadcast' or _lock_group.consumer_group.member <> '' then
        return;
    end if;
    v_timeout := mqpg._wait_as_set();
    perform from mqpg.subscription s
    where s.subscription_id = _lock_group.consumer_group.subscription_id
    for update;
    perform set_config('lock_timeout', v_timeout, true);
end
$$;
comment on function mqpg._lock_group(mqpg.subscription) is 'Internal: let no member join a broadcast group meanwhile';

-- functions/lookup/_producer_group.sql
-- The producer group of that name, or MQ001/MQ002/MQ004.
-- Locks: none. Cost: one index lookup.
create function mqpg._producer_group(producer_group text) returns mqpg.producer_group
language plpgsql stable as $$
declare
    v_group mqpg.producer_group;
begin
    select g.* into v_group from mqpg.producer_group g where g.name = _producer_group.producer_group;
    if not found then
        perform mqpg._check_name('producer_group', _producer_group.producer_group);
        raise exception using errcode = 'MQ004',
            message = format('producer group %L does not exist', _producer_group.producer_group),
            hint = 'create_producer_group() makes one.';
    end if;
    return v_group;
end
$$;
comment on function mqpg._producer_group(text) is 'Internal: producer group by name, or an error';

-- functions/lookup/_setting.sql
-- Value of a server-wide setting as text.
-- Locks: none. Cost: one index lookup in a tiny table.
create function mqpg._setting(name text) returns text
language sql stable as $$
    select s.value from mqpg.settings s where s.name = _setting.name
$$;
comment on function mqpg._setting(text) is 'Internal: value of a server-wide setting';

-- functions/lookup/_subscription.sql
-- The subscription of a consumer group to a topic (of a broadcast group its own row, no member's), or an error:
-- MQ001, MQ002, MQ003, MQ005.
-- Locks: none. Cost: two index lookups.
create function mqpg._subscription(consumer_group text, topic text) returns mqpg.subscription
language plpgsql stable as $$
declare
    v_topic mqpg.topic := mqpg._topic(_subscription.topic);
    v_subscription mqpg.subscription;
begin
    select s.* into v_subscription from mqpg.subscription s
    where s.topic_id = v_topic.topic_id and s.consumer_group = _subscription.consumer_group
        and s.member = '';
    if not found then
        perform mqpg._check_name('consumer_group', _subscription.consumer_group);
        raise exception using errcode = 'MQ005', message = format(
            'consumer group %L has no subscription to topic %L', _subscription.consumer_group, _subscription.topic),
            hint = 'subscribe() makes one.';
    end if;
    return v_subscription;
end
$$;
comment on function mqpg._subscription(text, text) is 'Internal: subscription by names, or an error';

-- functions/lookup/_topic.sql
-- The topic of that name, or MQ001/MQ002/MQ003.
-- Locks: none. Cost: one index lookup.
create function mqpg._topic(topic text) returns mqpg.topic
language plpgsql stable as $$
declare
    v_topic mqpg.topic;
begin
    select t.* into v_topic from mqpg.topic t where t.name = _topic.topic;
    if not found then
        perform mqpg._check_name('topic', _topic.topic);
        raise exception using errcode = 'MQ003', message = format('topic %L does not exist', _topic.topic),
            hint = 'create_topic() makes one.';
    end if;
    return v_topic;
end
$$;
comment on function mqpg._topic(text) is 'Internal: topic by name, or an error';

-- functions/lookup/_wait_as_set.sql
-- From here on the transaction waits for locks no longer than the setting lock_timeout; returns how long it waited
-- before, to be put back.
-- Locks: none. Cost: one index lookup in a tiny table.
create function mqpg._wait_as_set() returns text
language plpgsql as $$
declare
    v_before text := current_setting('lock_timeout');
begin
    perform set_config('lock_timeout', mqpg._setting('lock_timeout'), true);
    return v_before;
end
$$;
comment on function mqpg._wait_as_set() is 'Internal: wait for locks as the setting lock_timeout says';

-- functions/lookup/_message.sql
-- What is stored of one message, from its record batch or, where the segment is gone, from held; no row where
-- neither has it.
-- Locks: none. Cost: one row of the commit log.
create function mqpg._message(message_id bigint) returns table (
    topic_id int, queue_id smallint, producer_group_id int, kind "char", xid xid8, nonce uuid, key text, tag text,
    headers jsonb, payload json, delay interval, check_at timestamptz, born_at timestamptz, held boolean
)
language sql stable as $$
    select l.topic_id, l.queue_id, l.producer_group_id, l.kind, l.xid, l.nonce, l.keys[p.i], l.tags[p.i],
        l.headers[p.i], l.payloads[p.i], l.delay, l.check_at, l.born_at, false
    from (values (_message.message_id % 1024 + 1)) as p(i)
    join mqpg.commit_log l on l.batch_id = _message.message_id / 1024 and p.i <= l.n
    union all
    select h.topic_id, h.queue_id, h.producer_group_id, h.kind, h.xid, h.nonce, h.key, h.tag, h.headers, h.payload,
        h.delay, h.check_at, h.born_at, true
    from mqpg.held h
    where h.message_id = _message.message_id
    limit 1
$$;
comment on function mqpg._message(bigint) is 'Internal: what is stored of a message';

-- functions/store/_first_sends.sql
-- Tells which messages are the first with their dedup id within the window, and registers those:
-- returns, per element, null where the message is new (or has no dedup id), else the first one's id.
-- Each id goes into the current slot and the next, so that two sends within a window meet in one; new is
-- who inserted into both. Ids are inserted sorted, slot by slot: one order for all, hence no deadlock.
-- A message with a dedup id is a batch of its own, since its id must be known before it is known to be new.
-- Locks: the inserted keys; waits for a running send of the same id. Cost: two index inserts an id.
-- Errors: 40001 for a REPEATABLE READ caller who meets an id that his snapshot does not show.
create function mqpg._first_sends(topic_id int, dedup_ids text [], message_ids bigint []) returns bigint []
language plpgsql as $$
declare
    v_slot bigint;
    v_wanted bigint [];
    v_first bigint [];
begin
    if exists (select from unnest(_first_sends.dedup_ids) u(d) where octet_length(u.d) not between 1 and 512) then
        raise exception using errcode = 'MQ001', message = 'dedup_id must have 1 to 512 bytes';
    end if;
    -- before the setting is read: while it is changed nobody has its old value
    lock table only mqpg.dedup in row exclusive mode;
    v_slot := mqpg._dedup_slot();
    with fresh as (
        select distinct on (u.d) u.d, u.m
        from unnest(_first_sends.dedup_ids, _first_sends.message_ids) with ordinality as u(d, m, o)
        where u.d is not null order by u.d, u.o
    ),
    stored as (
        insert into mqpg.dedup (topic_id, dedup_id, slot, message_id)
        select _first_sends.topic_id, f.d, v_slot, f.m from fresh f order by f.d
        on conflict do nothing returning message_id
    )
    select array_agg(s.message_id) into v_wanted from stored s;
    with fresh as (
        select u.d, u.m from unnest(_first_sends.dedup_ids, _first_sends.message_ids) as u(d, m)
        where u.m = any(v_wanted)
    ),
    stored as (
        insert into mqpg.dedup (topic_id, dedup_id, slot, message_id)
        select _first_sends.topic_id, f.d, v_slot + 1, f.m from fresh f order by f.d
        on conflict do nothing returning message_id
    )
    select array_agg(s.message_id) into v_wanted from stored s;
    -- A new statement: it sees the rows that the inserts waited for. The later slot is right where both
    -- have the id, for a loser at a slot's boundary leaves a row in the earlier one only.
    select array_agg(case when u.m = any(v_wanted) or u.d is null then null else k.message_id end order by u.o)
    into v_first
    from unnest(_first_sends.dedup_ids, _first_sends.message_ids) with ordinality as u(d, m, o)
    left join lateral (
        select e.message_id from mqpg.dedup e
        where e.topic_id = _first_sends.topic_id and e.dedup_id = u.d and e.slot between v_slot and v_slot + 1
        order by e.slot desc limit 1
    ) as k on true;
    return v_first;
end
$$;
comment on function mqpg._first_sends(int, text [], bigint [])
    is 'Internal: register dedup ids and find the first sends of known ones';

-- functions/store/_force_sync.sql
-- Makes this transaction's commit wait for the disk even where the session chose not to: a prepare, a
-- decision or a pass of the appender that is lost after it was answered breaks the protocol.
-- Locks: none. Cost: a setting, and only where it differs.
create function mqpg._force_sync() returns void
language plpgsql as $$
begin
    if current_setting('synchronous_commit') in ('off', 'local') then
        perform set_config('synchronous_commit', 'on', true);
    end if;
end
$$;
comment on function mqpg._force_sync() is 'Internal: make this transaction commit durably';

-- functions/store/_queue_of.sql
-- The queue of a key: same key, same queue.
-- Locks: none. Cost: one hash.
create function mqpg._queue_of(key text, queues int) returns smallint
language sql immutable as $$
    select ((hashtextextended(_queue_of.key, 0) & 9223372036854775807) % _queue_of.queues)::smallint
$$;
comment on function mqpg._queue_of(text, int) is 'Internal: queue of a key';

-- The queue of a batch without keys: a hash of its id, since decisions draw from the same sequence and a
-- plain remainder would favour some queues.
create function mqpg._queue_of(batch_id bigint, queues int) returns smallint
language sql immutable as $$
    select ((hashint8extended(_queue_of.batch_id, 0) & 9223372036854775807) % _queue_of.queues)::smallint
$$;
comment on function mqpg._queue_of(bigint, int) is 'Internal: queue of a batch without keys';

-- functions/store/_dedup_slot.sql
-- The slot of dedup that is current: slots are numbered in lengths of the window, null: the setting dedup_window.
-- Locks: none. Cost: one index lookup in a tiny table.
create function mqpg._dedup_slot(dedup_window interval default null) returns bigint
language sql volatile as $$
    select floor(extract(epoch from clock_timestamp())
        / extract(epoch from coalesce(_dedup_slot.dedup_window, mqpg._setting('dedup_window')::interval)))::bigint
$$;
comment on function mqpg._dedup_slot(interval) is 'Internal: current slot of dedup ids';

-- functions/store/_store.sql
-- Writes messages of one topic into the commit log and returns their ids in argument order.
-- Messages without key share a record batch; keyed ones make one for each queue touched; a piece over 1024
-- messages or about 256 KiB begins another. Pieces take ascending batch ids in argument order, so messages
-- of one key never change places. kind 'd' also writes when they are due.
-- Locks: none beyond the new rows. Cost: one row a piece.
create function mqpg._store(
    topic mqpg.topic, kind "char", payloads text [], keys text [], tags text [], headers jsonb [],
    visible_at timestamptz default null, producer_group_id int default null, incarnation int default null,
    nonce uuid default null, check_at timestamptz default null, delay interval default null
) returns bigint []
language plpgsql as $$
declare
    v_xid xid8 := pg_current_xact_id();    -- before any batch id is drawn
    v_now timestamptz := clock_timestamp();
    v_piece record;
    v_batch bigint;
    v_queue smallint;
    v_ids bigint [] := array_fill(null::bigint, array[cardinality(_store.payloads)]);
    v_position int;
begin
    for v_piece in
        with message as (
            select u.o, u.p, u.k, u.t, u.h, octet_length(u.p) as size,
                case when u.k is null then -1 else mqpg._queue_of(u.k, _store.topic.queues) end as lane
            from unnest(_store.payloads, _store.keys, _store.tags, _store.headers)
                with ordinality as u(p, k, t, h, o)
        ),
        placed as (
            select m.*, row_number() over w - 1 as rank, sum(m.size) over w - m.size as bytes_before
            from message m window w as (partition by m.lane order by m.o)
        )
        select p.lane, count(*)::int as n, array_agg(p.o::int order by p.o) as ordinals,
            array_agg(p.p order by p.o) as payloads,
            case when count(p.k) > 0 then array_agg(p.k order by p.o) end as keys,
            case when count(p.t) > 0 then array_agg(p.t order by p.o) end as tags,
            case when count(p.h) > 0 then array_agg(p.h order by p.o) end as headers
        from placed p
        group by p.lane, p.rank / 1024, (p.bytes_before / 262144)::int
        order by min(p.o)
    loop
        v_batch := nextval('mqpg.batch_id');
        v_queue := case
            when v_piece.lane >= 0 then v_piece.lane
            else mqpg._queue_of(v_batch, _store.topic.queues)
        end;
        insert into mqpg.commit_log (
            batch_id, xid, born_at, topic_id, producer_group_id, incarnation, queue_id, n, kind, nonce, check_at,
            delay, keys, tags, headers, payloads, relay)
        values (
            v_batch, v_xid, v_now, _store.topic.topic_id, _store.producer_group_id, _store.incarnation, v_queue,
            v_piece.n, _store.kind, _store.nonce, _store.check_at, _store.delay,
            v_piece.keys, v_piece.tags, v_piece.headers, v_piece.payloads::json [],
            case when _store.kind = 'h' and _store.topic.kind = 'relay' then true end);
        if _store.kind = 'd' then
            insert into mqpg.delayed (visible_at, xid, first_id, n, written_at, topic_id, queue_id)
            values (_store.visible_at, v_xid, v_batch * 1024, v_piece.n, v_now, _store.topic.topic_id, v_queue);
        end if;
        for v_position in 1..v_piece.n loop
            v_ids[v_piece.ordinals[v_position]] := v_batch * 1024 + v_position - 1;
        end loop;
    end loop;
    return v_ids;
end
$$;
comment on function mqpg._store(
    mqpg.topic, "char", text [], text [], text [], jsonb [], timestamptz, int, int, uuid, timestamptz, interval
) is 'Internal: write messages into the commit log as record batches';

-- functions/cursor/_cursor.sql
-- The newest version of a cursor, null where there is none. Volatile: it must see what a lock waited for.
-- A transaction that looked at the table before keep() attached a new slot goes on with the partitions it
-- knows, and would take the closing row for the newest; a lock of a kind that it does not hold yet makes it
-- look again, and if it held even that it must start over.
-- Locks: none; ROW SHARE on cursor in that one case. Cost: one index lookup a slot. (plpgsql, not sql: its plan
-- is kept.) Errors: 40001.
create function mqpg._cursor(subscription_id int, queue_id int) returns mqpg.cursor
language plpgsql volatile as $$
declare
    v_cursor mqpg.cursor;
begin
    select c.* into v_cursor from mqpg.cursor c
    where c.subscription_id = _cursor.subscription_id and c.queue_id = _cursor.queue_id
    order by c.version desc limit 1;
    if v_cursor.action = 'c' then
        lock table only mqpg.cursor in row share mode;
        select c.* into v_cursor from mqpg.cursor c
        where c.subscription_id = _cursor.subscription_id and c.queue_id = _cursor.queue_id
        order by c.version desc limit 1;
        if v_cursor.action = 'c' then
            raise exception using errcode = '40001',
                message = 'the queue''s cursor was moved to a new slot: try the transaction again';
        end if;
    end if;
    return v_cursor;
end
$$;
comment on function mqpg._cursor(int, int) is 'Internal: newest version of a cursor';

-- functions/cursor/_cursor_slot.sql
-- The slot that new cursors are written to: the newest one that keep() made.
-- Locks: none. Cost: one index lookup.
create function mqpg._cursor_slot() returns int
language sql stable as $$
    select max(s.segment_no)::int from mqpg.segment s where s.family = 'cursor' and s.closed_at is null
$$;
comment on function mqpg._cursor_slot() is 'Internal: newest cursor slot';

-- functions/cursor/_free_claim.sql
-- A claim that nobody holds: its range is there for the next receive. The negative epoch matches no receipt.
-- One that waits for its back-off stays as it is.
-- Locks: none. Cost: none.
create function mqpg._free_claim(claim mqpg.claim, last_version mqpg.cursor, attempt int) returns mqpg.claim
language plpgsql immutable as $$
declare
    v_claim mqpg.claim := _free_claim.claim;
begin
    if v_claim.epoch > 0 then
        v_claim.epoch := -(_free_claim.last_version).version - 1;
        v_claim.attempt := _free_claim.attempt;
        v_claim.lease_until := '-infinity';
        v_claim.consumer := null;
    end if;
    return v_claim;
end
$$;
comment on function mqpg._free_claim(mqpg.claim, mqpg.cursor, int) is 'Internal: a claim that nobody holds';

-- functions/cursor/_lock_cursor.sql
-- Takes a queue's cursor lock for the rest of the transaction, waiting no longer than the setting
-- lock_timeout (55P03). True when it had to wait.
-- Locks: 1836150833, subscription_id * 1024 + queue_id + 1. Cost: none to speak of where nobody holds it.
create function mqpg._lock_cursor(subscription_id int, queue_id int) returns boolean
language plpgsql as $$
declare
    v_key int := _lock_cursor.subscription_id * 1024 + _lock_cursor.queue_id + 1;
    v_timeout text;
begin
    if pg_try_advisory_xact_lock(1836150833, v_key) then
        return false;
    end if;
    v_timeout := mqpg._wait_as_set();
    perform pg_advisory_xact_lock(1836150833, v_key);
    perform set_config('lock_timeout', v_timeout, true);
    return true;
end
$$;
comment on function mqpg._lock_cursor(int, int) is 'Internal: take a queue''s cursor lock';

-- functions/cursor/_move_cursor.sql
-- Moves one queue of a subscription to an offset, and the table jump says what was left out. A seek goes forward or
-- back, and all claims end. Everything else (purge, age, size) only goes forward: claims keep what lies behind, with
-- their receipts. Returns how many messages are left out: what was not handed out yet, and what was and is not settled.
-- Locks: none (the caller holds the queue's). Cost: one cursor version, one row a stretch left out.
create function mqpg._move_cursor(subscription mqpg.subscription, queue_id int, to_offset bigint, why text)
returns bigint
language plpgsql as $$
declare
    v_id int := (_move_cursor.subscription).subscription_id;
    v_cursor mqpg.cursor := mqpg._cursor(v_id, _move_cursor.queue_id);
    v_seek boolean := _move_cursor.why = 'seek';
    v_claim mqpg.claim;
    v_kept mqpg.claim [] := '{}';
    v_part record;
    v_left_out bigint := 0;
begin
    if v_cursor.version is null
        or (v_seek and v_cursor.claims = '{}' and v_cursor.claimed = _move_cursor.to_offset)
        or (not v_seek and v_cursor.committed >= _move_cursor.to_offset) then
        return 0;
    end if;
    if not v_seek then
        foreach v_claim in array v_cursor.claims loop
            v_claim.from_offset := greatest(v_claim.from_offset, _move_cursor.to_offset);
            if v_claim.from_offset < v_claim.to_offset then
                v_claim := mqpg._settle_offsets(v_claim, '{}');
                v_kept := v_kept || case when v_claim.epoch is not null then array[v_claim] else '{}' end;
            end if;
        end loop;
    end if;
    perform mqpg._write_cursor(
        v_cursor, 'q', null,
        case when v_seek then _move_cursor.to_offset else greatest(v_cursor.claimed, _move_cursor.to_offset) end,
        v_cursor.owner, v_kept);
    if (_move_cursor.subscription).mode = 'broadcast' and (_move_cursor.subscription).member = '' then
        return 0;   -- nobody reads by the group's own row
    end if;
    for v_part in
        select r.from_offset, least(r.to_offset, _move_cursor.to_offset) as to_offset, r.n
        from (
            select (c).from_offset, (c).to_offset, case
                when (c).picked is not null
                    then (select count(*) from unnest((c).picked) p where p < _move_cursor.to_offset)
                else least((c).to_offset, _move_cursor.to_offset) - (c).from_offset
                    - (select count(*) from unnest((c).settled) s where s < _move_cursor.to_offset)
            end as n
            from unnest(v_cursor.claims) c
            union all
            select v_cursor.claimed, _move_cursor.to_offset, _move_cursor.to_offset - v_cursor.claimed
        ) as r
        where r.from_offset < _move_cursor.to_offset
    loop
        v_left_out := v_left_out + v_part.n;
        perform mqpg._note_jump(
            _move_cursor.subscription, _move_cursor.queue_id, v_part.from_offset, v_part.to_offset,
            _move_cursor.why);
    end loop;
    if v_seek and _move_cursor.to_offset < v_cursor.claimed then
        delete from mqpg.jump j
        where j.subscription_id = v_id and j.queue_id = _move_cursor.queue_id and not j.back
            and j.from_offset >= _move_cursor.to_offset;
        update mqpg.jump j set to_offset = _move_cursor.to_offset
        where j.subscription_id = v_id and j.queue_id = _move_cursor.queue_id and not j.back
            and j.to_offset > _move_cursor.to_offset;
        perform mqpg._note_jump(
            _move_cursor.subscription, _move_cursor.queue_id, _move_cursor.to_offset, v_cursor.claimed,
            _move_cursor.why, true);
    end if;
    return v_left_out;
end
$$;
comment on function mqpg._move_cursor(mqpg.subscription, int, bigint, text) is 'Internal: move a cursor to an offset';

-- functions/cursor/_note_jump.sql
-- Notes that a subscription leaves out offsets for good (see the table jump); an expiry goes on in the row of the
-- one before, since receive() makes many small ones.
-- Locks: the row. Cost: one insert or update.
create function mqpg._note_jump(
    subscription mqpg.subscription, queue_id int, from_offset bigint, to_offset bigint, why text,
    back boolean default false
) returns void
language plpgsql as $$
begin
    if _note_jump.from_offset >= _note_jump.to_offset then
        return;
    end if;
    if _note_jump.why = 'expired' then
        update mqpg.jump j set to_offset = _note_jump.to_offset, at = clock_timestamp()
        where j.subscription_id = (_note_jump.subscription).subscription_id and j.queue_id = _note_jump.queue_id
            and j.to_offset = _note_jump.from_offset and j.why = 'expired' and not j.back;
        if found then
            return;
        end if;
    end if;
    insert into mqpg.jump (
        subscription_id, topic_id, consumer_group, member, topic, queue_id, from_offset, to_offset, why, back)
    select (_note_jump.subscription).subscription_id, t.topic_id, (_note_jump.subscription).consumer_group,
        (_note_jump.subscription).member, t.name, _note_jump.queue_id, _note_jump.from_offset, _note_jump.to_offset,
        _note_jump.why, _note_jump.back
    from mqpg.topic t where t.topic_id = (_note_jump.subscription).topic_id;
end
$$;
comment on function mqpg._note_jump(mqpg.subscription, int, bigint, bigint, text, boolean) is
    'Internal: note offsets that a subscription leaves out';

-- functions/cursor/_offset_at.sql
-- The first offset of a queue that was appended at or after a time, that is, became visible then; the next offset
-- where there is none. Found by halving over ticks and then over the queue's rows, whose ticks ascend with the
-- offsets: the log is not read.
-- Locks: none. Cost: about 30 index lookups for the tick, and log2(messages) for the queue.
create function mqpg._offset_at(topic_id int, queue_id int, subscription_id int, at timestamptz) returns bigint
language plpgsql stable as $$
declare
    v_tick_id bigint := mqpg._tick_at(_offset_at.at);
    v_low bigint := mqpg._oldest(_offset_at.topic_id, _offset_at.queue_id, _offset_at.subscription_id);
    v_high bigint := mqpg._tail(_offset_at.topic_id, _offset_at.queue_id, _offset_at.subscription_id);
    v_middle bigint;
    v_row record;
begin
    while v_low < v_high loop
        v_middle := v_low + (v_high - v_low) / 2;
        select c.base_offset, c.n, c.tick_id into v_row from mqpg.consume_queue c
        where c.topic_id = _offset_at.topic_id and c.queue_id = _offset_at.queue_id
            and c.subscription_id = _offset_at.subscription_id and c.base_offset + c.n > v_middle
            and c.base_offset > v_middle - 4096     -- a row's greatest length
        order by c.base_offset limit 1;
        if v_row.tick_id >= v_tick_id then
            v_high := greatest(least(v_middle, v_row.base_offset), v_low);
        else
            v_low := v_row.base_offset + v_row.n;
        end if;
    end loop;
    return v_low;
end
$$;
comment on function mqpg._offset_at(int, int, int, timestamptz) is
    'Internal: the first offset that became visible at or after a time';

-- functions/cursor/_oldest.sql
-- The oldest offset of a queue that can still be read; its next one where nothing is left. It is that of the oldest
-- row, or where keep() found that nobody needs what lies before (see queue_tail).
-- Locks: none. Cost: one index lookup a partition, and one more. (plpgsql, not sql: its plans are kept.)
create function mqpg._oldest(topic_id int, queue_id int, subscription_id int) returns bigint
language plpgsql stable as $$
declare
    v_oldest bigint;
begin
    select c.base_offset into v_oldest
    from mqpg.consume_queue c
    where c.topic_id = _oldest.topic_id and c.queue_id = _oldest.queue_id
        and c.subscription_id = _oldest.subscription_id
    order by c.base_offset limit 1;
    return greatest(
        coalesce(v_oldest, mqpg._tail(_oldest.topic_id, _oldest.queue_id, _oldest.subscription_id)),
        (select q.oldest_offset from mqpg.queue_tail q
         where q.topic_id = _oldest.topic_id and q.queue_id = _oldest.queue_id
            and q.subscription_id = _oldest.subscription_id));
end
$$;
comment on function mqpg._oldest(int, int, int) is 'Internal: oldest readable offset of a queue';

-- functions/cursor/_position.sql
-- The offset that a position names on one queue: earliest (the oldest that is left), latest (the next one), or a
-- time: the first message that became visible then or later; a time to come is latest.
-- Locks: none. Cost: one index lookup a partition; for a time see _offset_at().
create function mqpg._position(topic_id int, queue_id int, subscription_id int, target text) returns bigint
language plpgsql stable as $$
begin
    return case _position.target
        when 'earliest' then mqpg._oldest(_position.topic_id, _position.queue_id, _position.subscription_id)
        when 'latest' then mqpg._tail(_position.topic_id, _position.queue_id, _position.subscription_id)
        else mqpg._offset_at(_position.topic_id, _position.queue_id, _position.subscription_id,
            _position.target::timestamptz)
    end;
end
$$;
comment on function mqpg._position(int, int, int, text) is 'Internal: offset that a position names';

-- functions/cursor/_runs.sql
-- The runs of message ids at offsets from_offset .. to_offset - 1 of a queue, cut to that range, in order, as
-- arrays of one length: first message id, where its body lies, first offset, length, attempt. lowest and
-- highest are the batch ids between which the bodies lie: whoever reads them names these, so that the other
-- segments are pruned before the reading begins.
-- Locks: none. Cost: one index lookup a partition of consume_queue.
create function mqpg._runs(
    topic_id int, queue_id int, subscription_id int, from_offset bigint, to_offset bigint,
    out ids bigint [], out bodies bigint [], out offsets bigint [], out lengths int [], out attempts int [],
    out lowest bigint, out highest bigint
)
language plpgsql stable as $$
begin
    select array_agg(r.first_id + r.skip order by r.first_offset), array_agg(r.body + r.skip order by r.first_offset),
        array_agg(r.first_offset + r.skip order by r.first_offset),
        array_agg((least(r.first_offset + r.n, _runs.to_offset) - r.first_offset - r.skip)::int
            order by r.first_offset),
        array_agg(r.attempt::int order by r.first_offset), min(r.body) / 1024, max(r.body) / 1024
    into _runs.ids, _runs.bodies, _runs.offsets, _runs.lengths, _runs.attempts, _runs.lowest, _runs.highest
    from (
        select u.first_id, coalesce(u.deliver_id, u.first_id) as body, u.attempt,
            c.base_offset + u.start as first_offset, coalesce(c.starts[u.i + 1], c.n) - u.start as n,
            greatest(_runs.from_offset - c.base_offset - u.start, 0) as skip
        from mqpg.consume_queue c,
            unnest(c.first_ids, c.starts, c.deliver_ids, c.attempts)
                with ordinality as u(first_id, start, deliver_id, attempt, i)
        where c.topic_id = _runs.topic_id and c.queue_id = _runs.queue_id
            and c.subscription_id = _runs.subscription_id
            and c.base_offset >= (
                select b.base_offset from mqpg.consume_queue b
                where b.topic_id = _runs.topic_id and b.queue_id = _runs.queue_id
                    and b.subscription_id = _runs.subscription_id and b.base_offset <= _runs.from_offset
                order by b.base_offset desc limit 1)
            and c.base_offset < _runs.to_offset
        offset 0
    ) as r
    where r.first_offset < _runs.to_offset and r.first_offset + r.n > _runs.from_offset;
end
$$;
comment on function mqpg._runs(int, int, int, bigint, bigint) is 'Internal: runs of ids in a range of offsets';

-- functions/cursor/_settle_offsets.sql
-- What is left of a claim when offsets of it are settled: its ends move over settled ones, and it is null when
-- nothing is left. Works for a claim whose bounds were moved inwards, too.
-- Locks: none. Cost: linear in the offsets settled or picked.
create function mqpg._settle_offsets(claim mqpg.claim, offsets bigint []) returns mqpg.claim
language plpgsql immutable as $$
declare
    v_claim mqpg.claim := _settle_offsets.claim;
    v_settled bigint [];
begin
    if v_claim.picked is not null then
        v_claim.picked := array(
            select p from unnest(v_claim.picked) p
            where p >= v_claim.from_offset and p < v_claim.to_offset
            except all select o from unnest(_settle_offsets.offsets) o
            order by 1);
        v_claim.from_offset := v_claim.picked[1];
        v_claim.to_offset := v_claim.picked[cardinality(v_claim.picked)] + 1;
        if v_claim.picked = '{}' then
            return null;
        elsif cardinality(v_claim.picked) = v_claim.to_offset - v_claim.from_offset then
            v_claim.picked := null;
        end if;
        return v_claim;
    end if;
    v_settled := coalesce(v_claim.settled, '{}') || _settle_offsets.offsets;
    while v_claim.from_offset < v_claim.to_offset and v_claim.from_offset = any(v_settled) loop
        v_claim.from_offset := v_claim.from_offset + 1;
    end loop;
    v_claim.settled := array(
        select s from unnest(v_settled) s
        where s >= v_claim.from_offset and s < v_claim.to_offset order by s);
    if v_claim.settled = '{}' then
        v_claim.settled := null;
    end if;
    return case when v_claim.from_offset < v_claim.to_offset then v_claim end;
end
$$;
comment on function mqpg._settle_offsets(mqpg.claim, bigint []) is 'Internal: a claim less settled offsets';

-- functions/cursor/_tail.sql
-- The offset that the next message of a queue will get. keep() notes the tail of a queue whose rows are
-- all in a partition that it drops, so that a tail never goes back.
-- Locks: none. Cost: one index lookup a partition. (plpgsql, not sql: its plans are kept.)
create function mqpg._tail(topic_id int, queue_id int, subscription_id int) returns bigint
language plpgsql stable as $$
declare
    v_tail bigint;
begin
    select c.base_offset + c.n into v_tail
    from mqpg.consume_queue c
    where c.topic_id = _tail.topic_id and c.queue_id = _tail.queue_id and c.subscription_id = _tail.subscription_id
    order by c.base_offset desc limit 1;
    if not found then
        select q.next_offset into v_tail
        from mqpg.queue_tail q
        where q.topic_id = _tail.topic_id and q.queue_id = _tail.queue_id
            and q.subscription_id = _tail.subscription_id;
    end if;
    return coalesce(v_tail, 0);
end
$$;
comment on function mqpg._tail(int, int, int) is 'Internal: next offset of a queue';

-- functions/cursor/_tick_at.sql
-- A tick id such that ticks from it on were made at or after a time, and those before it earlier. Found by halving,
-- for the times of ticks only ever grow.
-- Locks: none. Cost: about 30 index lookups, whatever the number of ticks.
create function mqpg._tick_at(at timestamptz) returns bigint
language plpgsql stable as $$
declare
    v_low bigint;
    v_high bigint;
    v_middle bigint;
    v_tick record;
begin
    select min(t.tick_id), max(t.tick_id) + 1 into v_low, v_high from mqpg.tick t;
    while v_low < v_high loop
        v_middle := v_low + (v_high - v_low) / 2;
        select t.tick_id, t.at into v_tick from mqpg.tick t
        where t.tick_id >= v_middle order by t.tick_id limit 1;
        if v_tick.at >= _tick_at.at then
            v_high := v_middle;
        else
            v_low := v_tick.tick_id + 1;
        end if;
    end loop;
    return v_low;
end
$$;
comment on function mqpg._tick_at(timestamptz) is 'Internal: the first tick at or after a time';

-- functions/cursor/_write_cursor.sql
-- Writes the next version of a cursor and returns its number, so that callers may assign it: PERFORM costs an
-- executor run. `claims` come in any order; finished ones are gone from it. A caller whose snapshot is too old
-- to see the newest version loses the race: 40001.
-- Locks: none beyond the new row (callers hold the queue's lock). Cost: one insert.
create function mqpg._write_cursor(
    last_version mqpg.cursor, action "char", epoch bigint, claimed bigint, owner text, claims mqpg.claim [],
    failed bigint [] default null, reason text default null
) returns bigint
language plpgsql as $$
declare
    v_claims mqpg.claim [] := coalesce(_write_cursor.claims, '{}');
    v_version bigint := _write_cursor.last_version.version + 1;
begin
    if cardinality(v_claims) > 1 then
        v_claims := array(select c from unnest(v_claims) c order by (c).from_offset);
    end if;
    insert into mqpg.cursor (
        subscription_id, queue_id, slot, version, committed, claimed, at, action, epoch, owner, claims, failed,
        reason)
    values (
        _write_cursor.last_version.subscription_id, _write_cursor.last_version.queue_id,
        _write_cursor.last_version.slot, v_version,
        coalesce((v_claims[1]).from_offset, _write_cursor.claimed), _write_cursor.claimed, clock_timestamp(),
        _write_cursor.action, _write_cursor.epoch, _write_cursor.owner, v_claims,
        _write_cursor.failed, _write_cursor.reason)
    on conflict do nothing;
    if not found then
        raise exception using errcode = '40001', message = 'the queue was read concurrently: try the transaction again';
    end if;
    return v_version;
end
$$;
comment on function mqpg._write_cursor(mqpg.cursor, "char", bigint, bigint, text, mqpg.claim [], bigint [], text)
    is 'Internal: write the next version of a cursor';

-- functions/half/_check_final.sql
-- Refuses a final payload over the topic's limit (MQ010).
-- Locks: none. Cost: one index lookup.
create function mqpg._check_final(argument text, topic_id int, payload text) returns void
language plpgsql stable as $$
declare
    v_limit int := (select t.max_payload from mqpg.topic t where t.topic_id = _check_final.topic_id);
begin
    if octet_length(_check_final.payload) > v_limit then
        raise exception using errcode = 'MQ010', message = format(
            '%s has %s bytes; the topic allows %s', _check_final.argument,
            octet_length(_check_final.payload), v_limit);
    end if;
end
$$;
comment on function mqpg._check_final(text, int, text) is 'Internal: refuse an oversized final payload';

-- functions/half/_decide.sql
-- Writes the decision over one half message, or says which one stands (protocol T2, step 3; I3).
-- The insert and the look at the standing decision are two statements: one alone cannot see the row that
-- it waited for. A final payload becomes a row of its own, written only with a decision that counts.
-- Locks: the op_log key; waits for a decision that is under way. Cost: one row read, one written.
-- Errors: MQ001 (null handle), MQ010, 22P02 (not JSON), 40001 (REPEATABLE READ callers).
create function mqpg._decide(
    handle text, op "char", decided_by text, reason text default null, payload text default null
) returns mqpg.outcome
language plpgsql set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off as $$
declare
    v_id bigint;
    v_half record;
    v_xid xid8;
    v_order bigint;
    v_now timestamptz;
    v_inserted int;
    v_standing "char";
begin
    if _decide.handle is null then
        raise exception using errcode = 'MQ001', message = 'handle must not be null';
    end if;
    if not mqpg._is_handle(_decide.handle) then
        return 'unknown';
    end if;
    if current_setting('synchronous_commit') in ('off', 'local') then    -- a call saved, as nearly always
        perform mqpg._force_sync();
    end if;
    v_id := split_part(_decide.handle, '.', 3)::bigint;
    select l.topic_id, l.queue_id, l.delay, l.relay, l.keys[v_id % 1024 + 1] as key, l.tags[v_id % 1024 + 1] as tag,
        l.headers[v_id % 1024 + 1] as headers
    into v_half
    from mqpg.commit_log l
    cross join mqpg.broker b
    where l.batch_id = v_id / 1024 and v_id % 1024 < l.n and l.nonce = right(_decide.handle, 32)::uuid
        and l.incarnation = split_part(_decide.handle, '.', 2)::int
        and b.broker_id = split_part(_decide.handle, '.', 1);
    if not found then
        select h.topic_id, h.queue_id, h.delay, h.relay, h.key, h.tag, h.headers
        into v_half
        from mqpg.held h
        cross join mqpg.broker b
        where h.message_id = v_id and h.kind = 'h' and h.nonce = right(_decide.handle, 32)::uuid
            and h.incarnation = split_part(_decide.handle, '.', 2)::int
            and b.broker_id = split_part(_decide.handle, '.', 1);
        if not found then
            return 'unknown';
        end if;
    end if;
    v_xid := pg_current_xact_id();    -- before the order number is drawn
    v_order := nextval('mqpg.batch_id');
    v_now := clock_timestamp();
    insert into mqpg.op_log (
        message_id, stage, order_no, xid, op, deliver_id, at, visible_at, topic_id, queue_id, decided_by, reason)
    values (
        v_id, 0, v_order, v_xid, _decide.op,
        case when _decide.payload is not null or v_half.relay then v_order * 1024 end, v_now,
        case when _decide.op = 'c' then case when v_half.relay then 'infinity' else v_now + v_half.delay end end,
        v_half.topic_id, v_half.queue_id, _decide.decided_by, _decide.reason)
    on conflict do nothing;
    get diagnostics v_inserted = row_count;
    if v_inserted = 0 then
        select o.op into strict v_standing from mqpg.op_log o
        where o.message_id = v_id and o.stage = 0;
        return case v_standing when 'c' then 'already_committed' else 'already_rolled_back' end;
    end if;
    if v_half.relay then
        perform mqpg._relay_decisions(v_xid, v_now, _decide.op, array[v_id], array[_decide.payload],
            array[v_id], array[v_order], array[v_id]);
        return case _decide.op when 'c' then 'committed' else 'rolled_back' end;
    end if;
    if _decide.payload is not null then
        perform mqpg._check_final('payload', v_half.topic_id, _decide.payload);
        insert into mqpg.commit_log (
            batch_id, xid, born_at, topic_id, queue_id, n, kind, keys, tags, headers, payloads)
        values (
            v_order, v_xid, v_now, v_half.topic_id, v_half.queue_id, 1, 'f',
            case when v_half.key is not null then array[v_half.key] end,
            case when v_half.tag is not null then array[v_half.tag] end,
            case when v_half.headers is not null then array[v_half.headers] end,
            array[_decide.payload::json]);
    end if;
    if _decide.op = 'c' and v_half.delay is not null then
        insert into mqpg.delayed (visible_at, xid, first_id, deliver_id, n, written_at, topic_id, queue_id)
        values (
            v_now + v_half.delay, v_xid, v_id,
            case when _decide.payload is not null then v_order * 1024 end, 1, v_now,
            v_half.topic_id, v_half.queue_id);
    end if;
    return case _decide.op when 'c' then 'committed' else 'rolled_back' end;
end
$$;
comment on function mqpg._decide(text, "char", text, text, text)
    is 'Internal: decide one half message; the first decision stands';

-- functions/half/_half.sql
-- What is stored of the half message that a handle names; known = false for anything else: another broker's
-- handle, a wrong nonce, a row that a restore lost, a topic that was dropped. Looks into held where the
-- segment is gone.
-- Locks: none. Cost: one row of the commit log.
create function mqpg._half(
    handle text, out known boolean, out message_id bigint, out topic_id int, out topic text, out queue_id smallint,
    out producer_group_id int, out key text, out tag text, out headers jsonb, out payload json,
    out delay interval, out check_at timestamptz, out born_at timestamptz
)
language plpgsql stable as $$
declare
    v_handle record;
begin
    _half.known := false;
    select p.* into v_handle from mqpg._parse_handle(_half.handle) p
    join mqpg.broker b on b.broker_id = p.broker_id;
    if v_handle.message_id is null then
        return;
    end if;
    select true, v_handle.message_id, l.topic_id, t.name, l.queue_id, l.producer_group_id,
        l.keys[p.i], l.tags[p.i], l.headers[p.i], l.payloads[p.i], l.delay, l.check_at, l.born_at
    into _half.known, _half.message_id, _half.topic_id, _half.topic, _half.queue_id, _half.producer_group_id,
        _half.key, _half.tag, _half.headers, _half.payload, _half.delay, _half.check_at, _half.born_at
    from (select v_handle.message_id % 1024 + 1 as i) as p, mqpg.commit_log l
    join mqpg.topic t on t.topic_id = l.topic_id
    where l.batch_id = v_handle.message_id / 1024 and l.nonce = v_handle.nonce
        and l.incarnation = v_handle.incarnation and p.i <= l.n;
    if _half.known then
        return;
    end if;
    select true, h.message_id, h.topic_id, t.name, h.queue_id, h.producer_group_id,
        h.key, h.tag, h.headers, h.payload, h.delay, h.check_at, h.born_at
    into _half.known, _half.message_id, _half.topic_id, _half.topic, _half.queue_id, _half.producer_group_id,
        _half.key, _half.tag, _half.headers, _half.payload, _half.delay, _half.check_at, _half.born_at
    from mqpg.held h
    join mqpg.topic t on t.topic_id = h.topic_id
    where h.message_id = v_handle.message_id and h.kind = 'h' and h.nonce = v_handle.nonce
        and h.incarnation = v_handle.incarnation;
    _half.known := coalesce(_half.known, false);
end
$$;
comment on function mqpg._half(text) is 'Internal: the half message that a handle names';

-- functions/half/_handle.sql
-- The handle of a half message: broker, incarnation at its prepare, message id and nonce; opaque to everybody
-- else. It must be the same text for ever, for it is the key of ledgers and fences.
-- Locks: none. Cost: none to speak of (inlined).
create function mqpg._handle(broker_id text, incarnation int, message_id bigint, nonce uuid) returns text
language sql immutable as $$
    select _handle.broker_id || '.' || _handle.incarnation::text || '.' || _handle.message_id::text || '.'
        || replace(_handle.nonce::text, '-', '')
$$;
comment on function mqpg._handle(text, int, bigint, uuid) is 'Internal: handle of a half message';

-- The same for a half of this broker.
-- Locks: none. Cost: one lookup in a table of one row. (plpgsql, not sql: its plan is kept; no arguments inside
-- the query, else the planner finds a plan of its own for each call worth while.)
create function mqpg._handle(incarnation int, message_id bigint, nonce uuid) returns text
language plpgsql stable as $$
begin
    return mqpg._handle(
        (select b.broker_id from mqpg.broker b), _handle.incarnation, _handle.message_id, _handle.nonce);
end
$$;
comment on function mqpg._handle(int, bigint, uuid) is 'Internal: handle of a half message of this broker';

-- functions/half/_is_handle.sql
-- Whether a text has the form of a handle, so that its parts may be cast.
-- Locks: none. Cost: one regular expression (inlined).
create function mqpg._is_handle(handle text) returns boolean
language sql immutable as $$
    -- no leading zeros: a handle is one text, since ledgers are keyed by it; lengths apart: a pattern
    -- with {1,18} costs three times as much
    select _is_handle.handle ~ '^[0-9a-f]+\.[1-9][0-9]*\.[1-9][0-9]*\.[0-9a-f]+$'
        and length(split_part(_is_handle.handle, '.', 1)) = 12
        and length(split_part(_is_handle.handle, '.', 2)) <= 9
        and length(split_part(_is_handle.handle, '.', 3)) <= 18
        and length(split_part(_is_handle.handle, '.', 4)) = 32
$$;
comment on function mqpg._is_handle(text) is 'Internal: whether a text has the form of a handle';

-- functions/half/_parse_handle.sql
-- The parts of a handle; all null where the text is no handle.
-- Locks: none. Cost: one regular expression.
create function mqpg._parse_handle(
    handle text, out broker_id text, out incarnation int, out message_id bigint, out nonce uuid
)
language plpgsql immutable as $$
begin
    if mqpg._is_handle(_parse_handle.handle) then
        broker_id := split_part(_parse_handle.handle, '.', 1);
        incarnation := split_part(_parse_handle.handle, '.', 2)::int;
        message_id := split_part(_parse_handle.handle, '.', 3)::bigint;
        nonce := split_part(_parse_handle.handle, '.', 4)::uuid;
    end if;
end
$$;
comment on function mqpg._parse_handle(text) is 'Internal: parts of a handle, nulls if malformed';

-- functions/half/_phase_headers.sql
-- The headers of a phase of a relay topic's half: the message's own, and which phase of which half this is.
-- Locks: none. Cost: none to speak of. Errors: MQ001 (headers that are no object).
create function mqpg._phase_headers(headers jsonb, phase text, handle text) returns jsonb
language plpgsql immutable as $$
begin
    if jsonb_typeof(_phase_headers.headers) not in ('object', 'null') then
        raise exception using errcode = 'MQ001', message = format(
            'headers must be a JSON object in a relay topic, not %s', jsonb_typeof(_phase_headers.headers));
    end if;
    return coalesce(nullif(_phase_headers.headers, 'null'), '{}')
        || jsonb_build_object('mqpg-phase', _phase_headers.phase, 'mqpg-handle', _phase_headers.handle);
end
$$;
comment on function mqpg._phase_headers(jsonb, text, text) is 'Internal: headers of a relay topic''s message';

-- functions/half/_relay_half.sql
-- What a phase of a relay topic's half is made of; from held where its segment is gone.
-- Locks: none. Cost: one row of the commit log.
create function mqpg._relay_half(message_id bigint) returns table (
    topic_id int, queue_id smallint, incarnation int, nonce uuid, delay interval, key text, tag text, headers jsonb,
    payload json
)
language sql stable as $$
    select l.topic_id, l.queue_id, l.incarnation, l.nonce, l.delay, l.keys[p.i], l.tags[p.i], l.headers[p.i],
        l.payloads[p.i]
    from (values (_relay_half.message_id % 1024 + 1)) as p(i)
    join mqpg.commit_log l on l.batch_id = _relay_half.message_id / 1024
    union all
    select h.topic_id, h.queue_id, h.incarnation, h.nonce, h.delay, h.key, h.tag, h.headers, h.payload
    from mqpg.held h
    where h.message_id = _relay_half.message_id
        and not exists (select from mqpg.commit_log l where l.batch_id = _relay_half.message_id / 1024)
$$;
comment on function mqpg._relay_half(bigint) is 'Internal: a relay topic''s half';

-- functions/half/_relay_decisions.sql
-- Sends the COMMIT or ROLLBACK of relay topics' halves that a call has just decided (protocol T4): a message for each,
-- in the queue of its PREPARE, under the batch id that the decision names. COMMIT carries the final payload, else the
-- prepared one, so that a consumer needs nothing else; ROLLBACK carries null. A delayed half delays its COMMIT.
-- Arguments as of _store_finals; `decided` are the relay topics' halves that the call decided.
-- Locks: none beyond the new rows. Cost: one row read and one written each. Errors: MQ001, MQ010, 22P02 (not JSON).
create function mqpg._relay_decisions(
    xid xid8, at timestamptz, op "char", ids bigint [], payloads text [], halves bigint [], batches bigint [],
    decided bigint []
) returns void
language plpgsql as $$
begin
    with fate as materialized (
        select u.batch, f.topic_id, f.queue_id, f.key, f.tag, f.delay,
            mqpg._phase_headers(f.headers, case _relay_decisions.op when 'c' then 'commit' else 'rollback' end,
                mqpg._handle(f.incarnation, u.id, f.nonce)) as headers,
            case when _relay_decisions.op = 'c' then coalesce(p.payload::json, f.payload) else 'null' end as payload
        from unnest(_relay_decisions.halves, _relay_decisions.batches) as u(id, batch)
        cross join lateral mqpg._relay_half(u.id) as f
        left join lateral (
            select g.payload
            from unnest(_relay_decisions.ids, _relay_decisions.payloads) with ordinality as g(id, payload, o)
            where g.id = u.id order by g.o limit 1
        ) as p on true
        join lateral mqpg._check_final('payload', f.topic_id, p.payload) as checked on true
        where u.id = any(_relay_decisions.decided)
        order by u.id
    ),
    stored as (
        insert into mqpg.commit_log (
            batch_id, xid, born_at, topic_id, queue_id, n, kind, keys, tags, headers, payloads)
        select f.batch, _relay_decisions.xid, _relay_decisions.at, f.topic_id, f.queue_id, 1,
            case when _relay_decisions.op = 'c' and f.delay is not null then 'd' else 'n' end,
            case when f.key is not null then array[f.key] end, case when f.tag is not null then array[f.tag] end,
            array[f.headers], array[f.payload]
        from fate f
    )
    insert into mqpg.delayed (visible_at, xid, first_id, n, written_at, topic_id, queue_id)
    select _relay_decisions.at + f.delay, _relay_decisions.xid, f.batch * 1024, 1, _relay_decisions.at, f.topic_id,
        f.queue_id
    from fate f
    where _relay_decisions.op = 'c' and f.delay is not null;
end
$$;
comment on function mqpg._relay_decisions(
    xid8, timestamptz, "char", bigint [], text [], bigint [], bigint [], bigint []
) is 'Internal: send the decisions over a relay topic''s halves';

-- functions/half/_forget_entry.sql
-- Takes a decided half's entry out of the op-log queue; a parked one stays in the archive as the record of it.
-- Locks: the entry's row; one that a check-back holds is left to it. Cost: one index lookup, one delete.
create function mqpg._forget_entry(message_id bigint) returns void
language plpgsql as $$
declare
    v_msg_id bigint;
begin
    select q.msg_id into v_msg_id from pgmq.q_mqpg_oplog q
    where (q.message ->> 'message_id')::bigint = _forget_entry.message_id
    for update skip locked;
    if found then
        perform pgmq.delete('mqpg_oplog', v_msg_id);
    end if;
end
$$;
comment on function mqpg._forget_entry(bigint) is 'Internal: drop the op-log entry of a decided half';

-- functions/half/_half_row.sql
-- What the views show of a half message, without its body; from held where its segment is gone.
-- Locks: none. Cost: one index lookup.
create function mqpg._half_row(message_id bigint) returns table (
    topic_id int, producer_group_id int, incarnation int, nonce uuid, born_at timestamptz, check_at timestamptz
)
language sql stable as $$
    select l.topic_id, l.producer_group_id, l.incarnation, l.nonce, l.born_at, l.check_at
    from mqpg.commit_log l where l.batch_id = _half_row.message_id / 1024
    union all
    select h.topic_id, h.producer_group_id, h.incarnation, h.nonce, h.born_at, h.check_at
    from mqpg.held h where h.message_id = _half_row.message_id and h.kind = 'h'
    limit 1
$$;
comment on function mqpg._half_row(bigint) is 'Internal: a half message without its body';

-- functions/half/_is_decided.sql
-- Whether a half message is committed or rolled back.
-- Locks: none. Cost: one index lookup.
create function mqpg._is_decided(message_id bigint) returns boolean
language sql stable as $$
    select exists (select from mqpg.op_log o where o.message_id = _is_decided.message_id and o.stage = 0)
$$;
comment on function mqpg._is_decided(bigint) is 'Internal: whether a half is decided';

-- functions/find/_cursor_from.sql
-- The first version of a cursor within an era (see _eras) whose `claimed` (or, with done, `committed`) is above an
-- offset; null if none. There both only ever grow with the version, so it is found by halving.
-- Locks: none. Cost: log2(versions) index lookups.
create function mqpg._cursor_from(
    subscription_id int, queue_id int, queue_offset bigint, done boolean, from_version bigint, to_version bigint
) returns bigint
language plpgsql stable as $$
declare
    v_low bigint := _cursor_from.from_version;
    v_high bigint := _cursor_from.to_version + 1;
    v_middle bigint;
    v_row record;
begin
    while v_low < v_high loop
        v_middle := (v_low + v_high) / 2;
        select c.version, case when _cursor_from.done then c.committed else c.claimed end as at into v_row
        from mqpg.cursor c
        where c.subscription_id = _cursor_from.subscription_id and c.queue_id = _cursor_from.queue_id
            and c.version >= v_middle
        order by c.version limit 1;
        if v_row.version is null or v_row.version > _cursor_from.to_version or v_row.at > _cursor_from.queue_offset then
            v_high := v_middle;
        else
            v_low := v_row.version + 1;
        end if;
    end loop;
    return (
        select c.version from mqpg.cursor c
        where c.subscription_id = _cursor_from.subscription_id and c.queue_id = _cursor_from.queue_id
            and c.version between v_low and _cursor_from.to_version
        order by c.version limit 1);
end
$$;
comment on function mqpg._cursor_from(int, int, bigint, boolean, bigint, bigint) is
    'Internal: cursor version that passed an offset';

-- functions/find/_eras.sql
-- The stretches of a cursor's history, first and last version, in which positions only grow: a seek begins another.
-- Locks: none. Cost: one index lookup a slot, and one row a seek (or purge, or loss by policy).
create function mqpg._eras(subscription_id int, queue_id int) returns table (from_version bigint, to_version bigint)
language sql stable as $$
    with bound as (
        select min(c.version) as version from mqpg.cursor c
        where c.subscription_id = _eras.subscription_id and c.queue_id = _eras.queue_id
        union
        select c.version from mqpg.cursor c
        where c.subscription_id = _eras.subscription_id and c.queue_id = _eras.queue_id and c.action = 'q'
    )
    select b.version, coalesce(lead(b.version) over (order by b.version) - 1, (
        select max(c.version) from mqpg.cursor c
        where c.subscription_id = _eras.subscription_id and c.queue_id = _eras.queue_id))
    from bound b
$$;
comment on function mqpg._eras(int, int) is 'Internal: stretches of a cursor''s history between seeks';

-- functions/find/_deliveries_of.sql
-- The deliveries of one offset of a queue to one subscription, as far as the cursor's history goes back; failed_at
-- and reason where it was nacked and stayed at its place (block_key, block_queue).
-- Locks: none. Cost: for each era a few lookups, and the cursor versions from the first delivery to the end of the
-- last.
create function mqpg._deliveries_of(subscription_id int, queue_id int, queue_offset bigint) returns table (
    at timestamptz, attempt int, consumer text, lease_until timestamptz, failed_at timestamptz, reason text
)
language sql stable as $$
    with version as materialized (
        select c.*
        from mqpg._eras(_deliveries_of.subscription_id, _deliveries_of.queue_id) e
        join mqpg.cursor c on c.subscription_id = _deliveries_of.subscription_id
            and c.queue_id = _deliveries_of.queue_id
            and c.version >= mqpg._cursor_from(
                _deliveries_of.subscription_id, _deliveries_of.queue_id, _deliveries_of.queue_offset, false,
                e.from_version, e.to_version)
            and c.version <= coalesce(mqpg._cursor_from(
                _deliveries_of.subscription_id, _deliveries_of.queue_id, _deliveries_of.queue_offset, true,
                e.from_version, e.to_version), e.to_version)
        where c.action in ('r', 't', 'n')
    )
    select c.at, k.attempt, k.consumer, k.lease_until, f.at, f.reason
    from version c
    cross join lateral unnest(c.claims) as k
    left join version f on f.epoch = c.epoch and f.action = 'n' and _deliveries_of.queue_offset = any(f.failed)
    where c.action in ('r', 't') and k.epoch = c.epoch
        and _deliveries_of.queue_offset >= k.from_offset and _deliveries_of.queue_offset < k.to_offset
        and (k.settled is null or _deliveries_of.queue_offset <> all(k.settled))
        and (k.picked is null or _deliveries_of.queue_offset = any(k.picked))
    order by c.version
$$;
comment on function mqpg._deliveries_of(int, int, bigint) is 'Internal: deliveries of an offset to a subscription';

-- functions/find/_offset_of.sql
-- The offset that a tick gave to a message in one queue (queue -1: the retry lane of subscription_id); null where
-- the tick's rows are gone.
-- Locks: none. Cost: the rows that the tick wrote for the queue.
create function mqpg._offset_of(tick_id bigint, topic_id int, queue_id int, subscription_id int, message_id bigint)
returns bigint
language sql stable as $$
    select c.base_offset + u.start + _offset_of.message_id - u.first_id
    from mqpg.consume_queue c
    cross join lateral unnest(c.first_ids, c.starts) with ordinality as u(first_id, start, i)
    where c.tick_id = _offset_of.tick_id and c.topic_id = _offset_of.topic_id and c.queue_id = _offset_of.queue_id
        and c.subscription_id = _offset_of.subscription_id
        and _offset_of.message_id >= u.first_id
        and _offset_of.message_id < u.first_id + coalesce(c.starts[u.i + 1], c.n) - u.start
    order by 1 limit 1
$$;
comment on function mqpg._offset_of(bigint, int, int, int, bigint) is 'Internal: offset of a message in a tick';

-- functions/find/_place.sql
-- Where a message stands: state prepared, rolled_back, committed (decided, not appended yet), relayed (committed in a
-- relay topic: its phases are messages of their own), delayed, recalled, pending (sent, not appended yet) or
-- appended; and of an appended one the tick and the offset, null where those rows are gone. body_id is where its
-- body lies: a commit may have brought its own.
-- Locks: none. Cost: a few index lookups; see _tick_of().
create function mqpg._place(
    message_id bigint, topic_id int, queue_id int, kind "char", xid xid8,
    out state text, out body_id bigint, out tick_id bigint, out queue_offset bigint
)
language plpgsql stable as $$
declare
    v_op mqpg.op_log;
    v_due mqpg.op_log;
    v_delayed mqpg.delayed;
begin
    body_id := _place.message_id;
    if _place.kind = 'h' then
        select o.* into v_op from mqpg.op_log o where o.message_id = _place.message_id and o.stage = 0;
        if v_op.op is null or v_op.op = 'b' then
            state := case when v_op.op is null then 'prepared' else 'rolled_back' end;
            return;
        end if;
        if v_op.visible_at = 'infinity' then
            state := 'relayed';
            return;
        end if;
        body_id := coalesce(v_op.deliver_id, _place.message_id);
    end if;
    if _place.kind = 'd' or v_op.visible_at is not null then
        select o.* into v_due from mqpg.op_log o where o.message_id = _place.message_id and o.stage = 1;
        if v_due.op = 'r' then
            state := 'recalled';
            return;
        end if;
        -- put off for an open recall it has several rows, and only the pass that decided knows which one counted
        select d.* into v_delayed from mqpg.delayed d
        where d.first_id between _place.message_id - 1023 and _place.message_id
            and d.first_id + d.n > _place.message_id and d.subscription_id = 0
        order by d.first_id desc, d.visible_at desc limit 1;
        -- its row is dropped only when it is appended and past retention
        tick_id := case
            when v_due.op = 'd' then (select min(t.tick_id) from mqpg.tick t where t.xid = v_due.xid)
            else mqpg._tick_of(v_delayed.xid, v_delayed.visible_at)
        end;
        state := case
            when v_due.op is null and tick_id is null and v_delayed.xid is not null then 'delayed'
            else 'appended'
        end;
    else
        tick_id := mqpg._tick_of(coalesce(v_op.xid, _place.xid));
        state := case
            when tick_id is not null then 'appended'
            when _place.kind = 'h' then 'committed'
            else 'pending'
        end;
    end if;
    queue_offset := mqpg._offset_of(tick_id, _place.topic_id, _place.queue_id, 0, _place.message_id);
end
$$;
comment on function mqpg._place(bigint, int, int, "char", xid8) is 'Internal: state and offset of a message';

-- functions/find/_tick_of.sql
-- The first tick that covers a transaction's rows: whose snapshot sees its xid and, for what was delayed, whose
-- due time has come. Both only ever turn from no to yes, so it is found by halving. Null: not appended yet (or, for
-- rows older than every tick that is left, the oldest one left).
-- Locks: none. Cost: one index lookup; twice log2(ticks) more for a transaction that outlived a tick, or a delay.
create function mqpg._tick_of(xid xid8, visible_at timestamptz default '-infinity') returns bigint
language plpgsql stable as $$
declare
    v_below bigint;     -- this tick does not cover it
    v_tick bigint;      -- this one does
    v_probe bigint;
    v_covers boolean;
begin
    select t.tick_id, pg_visible_in_snapshot(_tick_of.xid, t.snapshot) and t.due_until >= _tick_of.visible_at
    into v_below, v_covers
    from mqpg.tick t where t.snapshot_xmax > _tick_of.xid
    order by t.snapshot_xmax, t.tick_id limit 1;
    if v_covers then
        return v_below;
    end if;
    select t.tick_id, pg_visible_in_snapshot(_tick_of.xid, t.snapshot) and t.due_until >= _tick_of.visible_at
    into v_tick, v_covers
    from mqpg.tick t order by t.tick_id desc limit 1;
    if v_below is null or not v_covers then
        return null;
    end if;
    loop
        v_probe := coalesce(
            (select t.tick_id from mqpg.tick t
             where t.tick_id > v_below and t.tick_id <= v_below + (v_tick - v_below) / 2
             order by t.tick_id desc limit 1),
            (select t.tick_id from mqpg.tick t
             where t.tick_id > v_below + (v_tick - v_below) / 2 and t.tick_id < v_tick
             order by t.tick_id limit 1));
        if v_probe is null then
            return v_tick;
        end if;
        select pg_visible_in_snapshot(_tick_of.xid, t.snapshot) and t.due_until >= _tick_of.visible_at
        into v_covers from mqpg.tick t where t.tick_id = v_probe;
        if v_covers then
            v_tick := v_probe;
        else
            v_below := v_probe;
        end if;
    end loop;
end
$$;
comment on function mqpg._tick_of(xid8, timestamptz) is 'Internal: the tick that appended a transaction''s rows';

-- functions/find/find_by_key.sql
-- Every message of a topic with that key that is still stored, oldest first, also undecided, delayed and not yet
-- appended ones. state: prepared, rolled_back, committed (decided, not appended yet), delayed, recalled, pending
-- (sent, not appended yet), appended. The payload is the one delivered, where a commit brought its own.
-- Locks: none. Cost: one index lookup a segment, and a few for each message found.
-- Errors: MQ001 (null key), MQ002, MQ003.
create function mqpg.find_by_key(topic text, key text) returns table (
    message_id bigint, queue_id int, queue_offset bigint, state text, born_at timestamptz, payload json
)
language plpgsql stable as $$
declare
    v_topic mqpg.topic := mqpg._topic(find_by_key.topic);
begin
    if find_by_key.key is null then
        raise exception using errcode = 'MQ001', message = 'key must not be null';
    end if;
    return query
    with hit as (
        select l.batch_id * 1024 + u.i - 1 as message_id, l.topic_id, l.queue_id, l.kind, l.xid, l.born_at,
            l.payloads[u.i] as payload
        from mqpg.commit_log l
        cross join lateral unnest(l.keys) with ordinality as u(key, i)
        where l.keys @> array[find_by_key.key] and l.topic_id = v_topic.topic_id and l.kind in ('n', 'h', 'd')
            and u.key = find_by_key.key
        union all
        select h.message_id, h.topic_id, h.queue_id, h.kind, h.xid, h.born_at, h.payload
        from mqpg.held h
        where h.topic_id = v_topic.topic_id and h.key = find_by_key.key and h.kind in ('n', 'h', 'd')
    )
    select h.message_id, h.queue_id::int, p.queue_offset, p.state, h.born_at,
        case when p.body_id = h.message_id then h.payload else (select m.payload from mqpg._message(p.body_id) m) end
    from hit h
    cross join lateral mqpg._place(h.message_id, h.topic_id, h.queue_id, h.kind, h.xid) p
    order by h.message_id;
end
$$;
comment on function mqpg.find_by_key(text, text) is 'Messages of a topic with a key, whatever their state';

-- functions/find/trace.sql
-- What happened to one message, in order of time: born or prepared; asked, waited, parked, rearmed, settled
-- (check-backs); decided; recalled; appended (tick, queue, offset); delivered and done, per subscription, as far as
-- the cursors' history goes back; filtered; left_out or moved_back (seek, purge, expiry, policy); retry (with the
-- reason) and its own appended and delivered; dead, redriven, discarded. No row where nothing is known of the id any
-- more.
-- Locks: none. Cost: a few index lookups for each event. Errors: MQ001 (null).
create function mqpg.trace(message_id bigint) returns table (at timestamptz, event text, detail jsonb)
language plpgsql stable as $$
declare
    v_message record;
    v_place record;
    v_topic text;
begin
    if trace.message_id is null then
        raise exception using errcode = 'MQ001', message = 'message_id must not be null';
    end if;
    select m.* into v_message from mqpg._message(trace.message_id) m;
    select t.name into v_topic from mqpg.topic t where t.topic_id = v_message.topic_id;
    select p.* into v_place
    from mqpg._place(trace.message_id, v_message.topic_id, v_message.queue_id, v_message.kind, v_message.xid) p
    where v_message.kind is not null;
    return query
    with lane as (
        -- what subscriptions took the message by: the topic's queue, or their retry lane
        select s.subscription_id, s.consumer_group, s.member, v_message.queue_id::int as queue_id, v_place.queue_offset,
            1 as attempt
        from mqpg.subscription s
        where s.topic_id = v_message.topic_id and v_place.queue_offset is not null
        union all
        select s.subscription_id, s.consumer_group, s.member, -1,
            mqpg._offset_of(mqpg._tick_of(d.xid, d.visible_at), d.topic_id, -1, s.subscription_id, trace.message_id),
            d.attempt
        from mqpg.delayed d
        join mqpg.subscription s on s.subscription_id = d.subscription_id
        where d.first_id between trace.message_id - 1023 and trace.message_id and d.first_id + d.n > trace.message_id
    ),
    story as (
        select v_message.born_at as at, case v_message.kind when 'h' then 'prepared' else 'born' end as event,
            jsonb_build_object('topic', v_topic, 'queue_id', v_message.queue_id, 'key', v_message.key,
                'tag', v_message.tag, 'delay', v_message.delay, 'check_at', v_message.check_at,
                'producer_group', (select g.name from mqpg.producer_group g
                    where g.producer_group_id = v_message.producer_group_id),
                'held', nullif(v_message.held, false)) as detail, 0 as place
        where v_message.kind is not null
        union all
        select c.at, c.event, jsonb_build_object('by', c.by, 'reason', c.reason), 1
        from mqpg.check_log c where c.message_id = trace.message_id
        union all
        select o.at, case o.op when 'd' then 'due' when 'r' then 'recalled' else 'decided' end,
            jsonb_build_object('decision', case o.op when 'c' then 'commit' when 'b' then 'rollback' end,
                'by', o.decided_by, 'reason', o.reason, 'visible_at', o.visible_at, 'body', o.deliver_id), 2
        from mqpg.op_log o where o.message_id = trace.message_id
        union all
        select t.at, 'appended', jsonb_build_object('tick_id', t.tick_id, 'queue_id', v_message.queue_id,
            'queue_offset', v_place.queue_offset), 3
        from mqpg.tick t where t.tick_id = v_place.tick_id and v_place.queue_offset is not null
        union all
        select t.at, 'appended', jsonb_build_object('tick_id', t.tick_id, 'queue_id', -1,
            'queue_offset', l.queue_offset, 'consumer_group', l.consumer_group), 3
        from lane l
        join mqpg.consume_queue c on c.topic_id = v_message.topic_id and c.queue_id = -1
            and c.subscription_id = l.subscription_id and c.base_offset <= l.queue_offset
            and c.base_offset + c.n > l.queue_offset and c.base_offset > l.queue_offset - 8192
        join mqpg.tick t on t.tick_id = c.tick_id
        where l.queue_id = -1
        union all
        select d.at, 'delivered', jsonb_build_object('consumer_group', l.consumer_group, 'queue_id', l.queue_id,
            'queue_offset', l.queue_offset, 'attempt', l.attempt + d.attempt - 1, 'consumer', d.consumer,
            'member', nullif(l.member, ''),
            'lease_until', d.lease_until), 4
        from lane l
        cross join lateral mqpg._deliveries_of(l.subscription_id, l.queue_id, l.queue_offset) d
        union all
        select d.failed_at, 'retry', jsonb_build_object('consumer_group', l.consumer_group, 'queue_id', l.queue_id,
            'attempt', l.attempt + d.attempt, 'reason', d.reason), 5
        from lane l
        cross join lateral mqpg._deliveries_of(l.subscription_id, l.queue_id, l.queue_offset) d
        where d.failed_at is not null
        union all
        select c.at, case c.action when 'f' then 'filtered' else 'done' end, jsonb_build_object(
            'consumer_group', l.consumer_group, 'queue_id', l.queue_id, 'queue_offset', l.queue_offset, 'member', nullif(l.member, '')), 5
        from lane l
        cross join lateral mqpg._eras(l.subscription_id, l.queue_id) e
        join mqpg.cursor c on c.subscription_id = l.subscription_id and c.queue_id = l.queue_id
            and c.version = mqpg._cursor_from(
                l.subscription_id, l.queue_id, l.queue_offset, true, e.from_version, e.to_version)
        where c.action not in ('s', 'k', 'q', 'x', 'i')
        union all
        -- left out by a seek, a purge, expiry or a policy; or to be delivered again by a seek back
        select j.at, case when j.back then 'moved_back' else 'left_out' end, jsonb_build_object(
            'consumer_group', l.consumer_group, 'member', nullif(l.member, ''), 'queue_id', l.queue_id,
            'queue_offset', l.queue_offset, 'why', j.why, 'by', j.by), 5
        from lane l
        join mqpg.jump j on j.subscription_id = l.subscription_id and j.queue_id = l.queue_id
            and j.to_offset > l.queue_offset and j.from_offset <= l.queue_offset
        union all
        select d.written_at, 'retry', jsonb_build_object('consumer_group', s.consumer_group, 'attempt', d.attempt,
            'visible_at', d.visible_at, 'reason', d.reason), 4
        from mqpg.delayed d
        join mqpg.subscription s on s.subscription_id = d.subscription_id
        where d.first_id between trace.message_id - 1023 and trace.message_id and d.first_id + d.n > trace.message_id
            and d.attempt > 1
        union all
        select f.at, f.event, jsonb_build_object('consumer_group', s.consumer_group, 'member', nullif(s.member, ''),
            'attempts', l.attempts, 'reason', case f.event when 'dead' then l.reason end,
            'by', case f.event when 'dead' then null else l.by end), f.place
        from mqpg.former_letter l
        join mqpg.subscription s on s.subscription_id = l.subscription_id
        cross join lateral (values (l.died_at, 'dead', 6), (l.left_at, l.fate, 7)) as f(at, event, place)
        where l.message_id = trace.message_id
        union all
        select d.died_at, 'dead', jsonb_build_object('consumer_group', s.consumer_group, 'attempts', d.attempts,
            'reason', d.reason), 6
        from mqpg.dead_letter d
        join mqpg.subscription s on s.subscription_id = d.subscription_id
        where d.message_id = trace.message_id
    )
    select s.at, s.event, jsonb_strip_nulls(s.detail) from story s order by s.at, s.place;
end
$$;
comment on function mqpg.trace(bigint) is 'What happened to one message, in order of time';

-- functions/topic/_check_one_of.sql
-- Refuses a value that is not one of the allowed words (MQ001), naming them.
-- Locks: none. Cost: none to speak of.
create function mqpg._check_one_of(argument text, value text, allowed text []) returns void
language plpgsql immutable as $$
begin
    if _check_one_of.value is null or _check_one_of.value <> all(_check_one_of.allowed) then
        raise exception using errcode = 'MQ001', message = format(
            '%s must be one of %s, not %s', _check_one_of.argument, array_to_string(_check_one_of.allowed, ', '),
            coalesce(quote_literal(_check_one_of.value), 'null'));
    end if;
end
$$;
comment on function mqpg._check_one_of(text, text, text []) is 'Internal: refuse a word that is not allowed';

-- functions/topic/_check_producer_group.sql
-- Checks the arguments that create_producer_group and alter_producer_group share (MQ001, MQ002).
-- Locks: none. Cost: none to speak of.
create function mqpg._check_producer_group(
    producer_group text, check_after interval, max_checks int, on_exhausted text, checker text, checker_target text
) returns void
language plpgsql stable as $$
begin
    perform mqpg._check_name('producer_group', _check_producer_group.producer_group);
    perform mqpg._interval('check_after', _check_producer_group.check_after, '10 milliseconds');
    perform mqpg._check_range('max_checks', _check_producer_group.max_checks, 1, 1000);
    perform mqpg._check_one_of('on_exhausted', _check_producer_group.on_exhausted, array['park', 'rollback']);
    perform mqpg._check_one_of(
        'checker', _check_producer_group.checker, array['due_checks', 'ledger', 'function', 'url']);
    if (_check_producer_group.checker_target is not null)
        is distinct from (_check_producer_group.checker in ('function', 'url')) then
        raise exception using errcode = 'MQ001', message = format(
            'checker_target must be %s for checker %s',
            case when _check_producer_group.checker in ('function', 'url') then 'given' else 'null' end,
            _check_producer_group.checker);
    end if;
    if _check_producer_group.checker = 'url' then
        perform mqpg._check_name('checker_target', _check_producer_group.checker_target);
    end if;
    if _check_producer_group.checker = 'function' and to_regproc(_check_producer_group.checker_target) is null then
        raise exception using errcode = 'MQ001', message = format(
            'checker_target %L names no function, or more than one', _check_producer_group.checker_target);
    end if;
end
$$;
comment on function mqpg._check_producer_group(text, interval, int, text, text, text)
    is 'Internal: refuse invalid settings of a producer group';

-- functions/topic/_check_subscription.sql
-- Refuses a subscription whose settings are out of range (MQ001) or do not go together: block_key and
-- block_queue promise an order that mode shared does not have, and the one offset of a pinned consumer's own
-- database (C2) cannot say which messages of other keys went on. MQ020: a filter with a variable that it is not given.
-- MQ024: a relay topic (protocol T4) whose phases would overtake one another or be filtered apart.
-- Locks: none. Cost: one index lookup.
create function mqpg._check_subscription(subscription mqpg.subscription) returns void
language plpgsql stable as $$
declare
    v_mode text := (_check_subscription.subscription).mode;
    v_on_failure text := (_check_subscription.subscription).on_failure;
begin
    perform mqpg._check_one_of('mode', v_mode, array['exclusive', 'shared', 'pinned', 'broadcast']);
    perform mqpg._check_one_of('on_failure', v_on_failure, array['skip', 'block_key', 'block_queue']);
    perform mqpg._check_range('max_attempts', (_check_subscription.subscription).max_attempts, 1, 10000);
    perform mqpg._interval('retry_delay', (_check_subscription.subscription).retry_delay, '0');
    perform mqpg._check_filter(
        (_check_subscription.subscription).filter, (_check_subscription.subscription).tags);
    if v_mode = 'shared' and v_on_failure <> 'skip' then
        raise exception using errcode = 'MQ001', message = format(
            'on_failure must be skip in mode shared, not %L: several ranges of a queue are in flight, so nothing '
            'can be held back behind a failed message', v_on_failure),
            hint = 'mode exclusive keeps the order of each key.';
    end if;
    if v_mode = 'pinned' and v_on_failure = 'block_key' then
        raise exception using errcode = 'MQ001', message =
            'on_failure must be skip or block_queue in mode pinned, not ''block_key'': a consumer that keeps one '
            'offset a queue cannot go on with other keys';
    end if;
    if (v_mode in ('shared', 'broadcast') or (_check_subscription.subscription).filter is not null)
        and exists (
            select from mqpg.topic t
            where t.topic_id = (_check_subscription.subscription).topic_id and t.kind = 'relay') then
        raise exception using errcode = 'MQ024', message =
            'a relay topic is read in mode exclusive or pinned and without a filter: the COMMIT of a half must come '
            'after its PREPARE, to the same inbox';
    end if;
end
$$;
comment on function mqpg._check_subscription(mqpg.subscription) is 'Internal: refuse settings of a subscription';

-- functions/topic/_lock_producer_group.sql
-- The producer group of that name (see _producer_group), as it is once nobody else changes it, and until the end of the
-- transaction nobody does.
-- Locks: its row, FOR NO KEY UPDATE, waiting up to the setting lock_timeout (55P03). Cost: one row.
-- Errors: MQ001, MQ002, MQ004, 55P03, 40001.
create function mqpg._lock_producer_group(producer_group text) returns mqpg.producer_group
language plpgsql as $$
declare
    v_group mqpg.producer_group := mqpg._producer_group(_lock_producer_group.producer_group);
    v_timeout text;
begin
    v_timeout := mqpg._wait_as_set();
    select g.* into v_group from mqpg.producer_group g
    where g.producer_group_id = v_group.producer_group_id
    for no key update;
    perform set_config('lock_timeout', v_timeout, true);
    if v_group.producer_group_id is null then
        raise exception using errcode = 'MQ004', message = format(
            'producer group %L was dropped meanwhile', _lock_producer_group.producer_group);
    end if;
    return v_group;
end
$$;
comment on function mqpg._lock_producer_group(text) is 'Internal: producer group by name, locked against changes';

-- functions/topic/_lock_subscription.sql
-- The subscription of those names (see _subscription), as it is once nobody else changes it, and until the end of the
-- transaction nobody does; a broadcast group's as _lock_group.
-- Locks: its row, FOR NO KEY UPDATE, waiting up to the setting lock_timeout (55P03). Cost: one row.
-- Errors: MQ001, MQ002, MQ003, MQ005, 55P03, 40001.
create function mqpg._lock_subscription(consumer_group text, topic text) returns mqpg.subscription
language plpgsql as $$
declare
    v_subscription mqpg.subscription := mqpg._subscription(_lock_subscription.consumer_group, _lock_subscription.topic);
    v_timeout text;
begin
    perform mqpg._lock_group(v_subscription);
    v_timeout := mqpg._wait_as_set();
    select s.* into v_subscription from mqpg.subscription s
    where s.subscription_id = v_subscription.subscription_id
    for no key update;
    perform set_config('lock_timeout', v_timeout, true);
    if v_subscription.subscription_id is null then
        raise exception using errcode = 'MQ005', message = format(
            'consumer group %L was unsubscribed meanwhile', _lock_subscription.consumer_group);
    end if;
    return v_subscription;
end
$$;
comment on function mqpg._lock_subscription(text, text) is 'Internal: subscription by names, locked against changes';

-- functions/topic/alter_producer_group.sql
-- Changes a producer group. An argument that is null leaves its value unchanged.
-- With checker `ledger` or `url`, a handle that the ledger does not contain means rollback. A group
-- therefore cannot get another ledger while half messages are undecided. Half messages whose
-- prepare() was still open then are parked when they are overdue. With checker `function` or
-- `due_checks` this is not restricted, because a function or an app itself knows what it can answer
-- for.
-- Arguments:
--   producer_group: name of the group.
--   check_after: how long after prepare() an undecided half message is checked; applies to half
--       messages prepared from now on.
--   max_checks: checks without an answer until on_exhausted applies, 1 to 1000.
--   on_exhausted: 'park' (wait for an administrator) or 'rollback'.
--   checker: 'due_checks', 'ledger', 'function' or 'url'; see create_producer_group().
--   checker_target: what the checker needs; null keeps it with 'function' and 'url' and removes it
--       otherwise.
-- Locks: the group's row, exclusively.
-- Cost: one update; with another ledger also the undecided half messages.
-- Errors: MQ001 (argument), MQ004 (unknown group), MQ018 (undecided half messages), 55P03, 40001.
create function mqpg.alter_producer_group(
    producer_group text, check_after interval default null, max_checks int default null,
    on_exhausted text default null, checker text default null, checker_target text default null
) returns void
language plpgsql as $$
declare
    v_group mqpg.producer_group := mqpg._lock_producer_group(alter_producer_group.producer_group);
    v_before mqpg.producer_group := v_group;
begin
    v_group.check_after := coalesce(alter_producer_group.check_after, v_group.check_after);
    v_group.max_checks := coalesce(alter_producer_group.max_checks, v_group.max_checks);
    v_group.on_exhausted := coalesce(alter_producer_group.on_exhausted, v_group.on_exhausted);
    v_group.checker := coalesce(alter_producer_group.checker, v_group.checker);
    v_group.checker_target := case
        when v_group.checker in ('function', 'url')
            then coalesce(alter_producer_group.checker_target, v_group.checker_target)
        else alter_producer_group.checker_target
    end;
    perform mqpg._check_producer_group(
        v_group.name, v_group.check_after, v_group.max_checks, v_group.on_exhausted, v_group.checker,
        v_group.checker_target);
    if v_group.checker in ('ledger', 'url')
        and (v_group.checker, v_group.checker_target) is distinct from (v_before.checker, v_before.checker_target)
    then
        v_group.ledger_since := nextval('mqpg.batch_id');
        if exists (select from mqpg.half_pending h where h.producer_group = v_group.name)
            or exists (select from mqpg.half_parked h where h.producer_group = v_group.name) then
            raise exception using errcode = 'MQ018',
                message = format('the ledger of producer group %L cannot change while half messages are undecided',
                    v_group.name),
                detail = 'A handle that the other ledger does not contain would be rolled back.',
                hint = 'Wait until they are decided (views half_pending and half_parked), or use another producer '
                    'group for new ones.';
        end if;
    end if;
    update mqpg.producer_group g set
        check_after = v_group.check_after,
        max_checks = v_group.max_checks,
        on_exhausted = v_group.on_exhausted,
        checker = v_group.checker,
        checker_target = v_group.checker_target,
        ledger_since = v_group.ledger_since
    where g.producer_group_id = v_group.producer_group_id;
end
$$;
comment on function mqpg.alter_producer_group(text, interval, int, text, text, text) is
    'Change a producer group; null leaves a value unchanged';

-- functions/topic/alter_subscription.sql
-- Changes a subscription; for a broadcast group, all members at once. An argument that is null
-- leaves its value unchanged. Messages that were already delivered, or that are in retry, were
-- chosen by the old filter and tags.
-- Arguments:
--   consumer_group, topic: names of the group and the topic.
--   max_attempts: deliveries until a message becomes a dead letter.
--   retry_delay: time until the second attempt; it doubles with each further one.
--   filter: a jsonpath that chooses messages; 'true' removes the filter.
--   tags: tags that choose messages; an empty array removes them.
--   on_failure: 'skip', 'block_key' or 'block_queue'; see subscribe().
--   mode: may change between 'exclusive' and 'shared' only, because positions and claims mean
--       something else in the other modes.
-- Locks: the subscription's rows, exclusively, so that of two calls the second one starts from the
-- first one's result.
-- Cost: one update per row.
-- Errors: MQ001 (argument), MQ003 (unknown topic), MQ005 (unknown subscription), MQ020 (filter),
-- MQ024 (relay topic), 55P03, 40001.
create function mqpg.alter_subscription(
    consumer_group text, topic text, max_attempts int default null, retry_delay interval default null,
    filter jsonpath default null, tags text [] default null, on_failure text default null, mode text default null
) returns void
language plpgsql as $$
declare
    v_new mqpg.subscription := mqpg._lock_subscription(alter_subscription.consumer_group, alter_subscription.topic);
    v_mode text := v_new.mode;
begin
    v_new.max_attempts := coalesce(alter_subscription.max_attempts, v_new.max_attempts);
    v_new.retry_delay := coalesce(alter_subscription.retry_delay, v_new.retry_delay);
    v_new.filter := coalesce(alter_subscription.filter, v_new.filter);
    v_new.filter := case when v_new.filter::text <> 'true' then v_new.filter end;
    v_new.tags := nullif(coalesce(alter_subscription.tags, v_new.tags), '{}');
    v_new.on_failure := coalesce(alter_subscription.on_failure, v_new.on_failure);
    v_new.mode := coalesce(alter_subscription.mode, v_new.mode);
    perform mqpg._check_subscription(v_new);
    if v_new.mode <> v_mode and array[v_mode, v_new.mode] <@ array['exclusive', 'shared'] is not true then
        raise exception using errcode = 'MQ001', message = format(
            'mode may change only between exclusive and shared, not from %s to %s', v_mode, v_new.mode),
            hint = 'Call unsubscribe() and subscribe() to start over in another mode.';
    end if;
    update mqpg.subscription s set
        max_attempts = v_new.max_attempts,
        retry_delay = v_new.retry_delay,
        filter = v_new.filter,
        tags = v_new.tags,
        on_failure = v_new.on_failure,
        mode = v_new.mode
    where v_new.subscription_id in (s.subscription_id, s.member_of);
end
$$;
comment on function mqpg.alter_subscription(text, text, int, interval, jsonpath, text [], text, text) is
    'Change a subscription; null leaves a value unchanged';

-- functions/topic/alter_topic.sql
-- Changes a topic. An argument that is null leaves its value unchanged. The number of queues cannot
-- change: a key would move to another queue while its older messages still wait in the first one.
-- Arguments:
--   topic: name of the topic.
--   retention: how long messages stay readable, at least 1 minute.
--   max_payload: greatest size of a payload, in bytes, 1 to 268435456.
--   message_ttl: a message that a group did not get within this time after it became visible
--       expires for that group; 0 means never.
--   on_expired: 'skip' (an expired message counts as consumed) or 'dead_letter'.
--   lose_after: drop messages that a group left unread for this long after their segment was
--       closed, once retention is over; 0 means never.
--   lose_over: drop a group's unread messages beyond this many bytes, once retention is over; 0
--       means never.
-- keep() applies lose_after and lose_over, and reports each loss (view losses).
-- Locks: the topic's row.
-- Cost: one update.
-- Errors: MQ001 (argument), MQ003 (unknown topic).
--
-- Example:
--     select mqpg.alter_topic('orders', retention => '30 days', message_ttl => '1 day');
create function mqpg.alter_topic(
    topic text, retention interval default null, max_payload int default null, message_ttl interval default null,
    on_expired text default null, lose_after interval default null, lose_over bigint default null
) returns void
language plpgsql as $$
declare
    v_topic mqpg.topic := mqpg._topic(alter_topic.topic);
begin
    if alter_topic.retention is not null then
        perform mqpg._interval('retention', alter_topic.retention, '1 minute');
    end if;
    if alter_topic.max_payload is not null then
        perform mqpg._check_range('max_payload', alter_topic.max_payload, 1, 268435456);
    end if;
    if alter_topic.message_ttl is not null then
        perform mqpg._interval('message_ttl', alter_topic.message_ttl, '0');
    end if;
    if alter_topic.on_expired is not null then
        perform mqpg._check_one_of('on_expired', alter_topic.on_expired, array['skip', 'dead_letter']);
    end if;
    if alter_topic.lose_after is not null then
        perform mqpg._interval('lose_after', alter_topic.lose_after, '0');
    end if;
    if alter_topic.lose_over is not null then
        perform mqpg._check_range('lose_over', alter_topic.lose_over, 0, 9223372036854775807);
    end if;
    update mqpg.topic t set
        retention = coalesce(alter_topic.retention, t.retention),
        max_payload = coalesce(alter_topic.max_payload, t.max_payload),
        message_ttl = nullif(coalesce(alter_topic.message_ttl, t.message_ttl), interval '0'),
        on_expired = coalesce(alter_topic.on_expired, t.on_expired),
        lose_after = nullif(coalesce(alter_topic.lose_after, t.lose_after), interval '0'),
        lose_over = nullif(coalesce(alter_topic.lose_over, t.lose_over), 0)
    where t.topic_id = v_topic.topic_id;
end
$$;
comment on function mqpg.alter_topic(text, interval, int, interval, text, interval, bigint) is
    'Change a topic: retention, limits, expiry and policies; null leaves a value unchanged';

-- functions/topic/create_producer_group.sql
-- Creates a producer group, which says how undecided half messages of its producers are checked
-- back (protocol T3). Repeated with equal arguments it changes nothing.
-- Arguments:
--   producer_group: name of the group.
--   check_after: how long after prepare() an undecided half message is checked, at least 10 ms;
--       default 60 s.
--   max_checks: checks without an answer until on_exhausted applies, 1 to 1000; default 15.
--   on_exhausted: 'park' (default; wait for an administrator) or 'rollback'.
--   checker: who is asked: 'due_checks' (default; the app polls due_checks()), 'ledger' (the ledger
--       in this database), 'function' (a SQL function) or 'url' (the ledger in another database,
--       which the compensator knows).
--   checker_target: with 'function', the function's name; with 'url', a name in the compensator's
--       configuration; otherwise null (default).
-- Locks: the new row.
-- Cost: one insert.
-- Errors: MQ001 (argument), MQ002 (name), MQ011 (the group exists with other arguments).
--
-- Example:
--     select mqpg.create_producer_group('shop', checker => 'ledger', check_after => '30 s');
create function mqpg.create_producer_group(
    producer_group text, check_after interval default '60 s', max_checks int default 15,
    on_exhausted text default 'park', checker text default 'due_checks', checker_target text default null
) returns void
language plpgsql as $$
declare
    v_group mqpg.producer_group;
begin
    perform mqpg._check_producer_group(
        create_producer_group.producer_group, create_producer_group.check_after, create_producer_group.max_checks,
        create_producer_group.on_exhausted, create_producer_group.checker, create_producer_group.checker_target);
    insert into mqpg.producer_group (name, check_after, max_checks, on_exhausted, checker, checker_target)
    values (create_producer_group.producer_group, create_producer_group.check_after,
        create_producer_group.max_checks, create_producer_group.on_exhausted, create_producer_group.checker,
        create_producer_group.checker_target)
    on conflict (name) do nothing;
    if found then
        return;
    end if;
    v_group := mqpg._producer_group(create_producer_group.producer_group);
    if (v_group.check_after, v_group.max_checks, v_group.on_exhausted, v_group.checker, v_group.checker_target)
        is distinct from (create_producer_group.check_after, create_producer_group.max_checks,
            create_producer_group.on_exhausted, create_producer_group.checker, create_producer_group.checker_target)
    then
        raise exception using errcode = 'MQ011',
            message = format('producer group %L exists with other arguments', v_group.name),
            hint = 'Call alter_producer_group() to change it.';
    end if;
end
$$;
comment on function mqpg.create_producer_group(text, interval, int, text, text, text) is
    'Create a producer group and say how its undecided half messages are checked; idempotent';

-- functions/topic/create_topic.sql
-- Creates a topic. Repeated with equal arguments it changes nothing.
-- Arguments:
--   topic: name of the topic.
--   queues: number of ordered queues, 1 to 1000, fixed for good; default 8. Messages with equal
--       keys go to the same queue.
--   retention: how long messages stay readable, at least 1 minute; default 7 days.
--   kind: 'normal' (default), or 'relay': PREPARE, COMMIT and ROLLBACK of a half message travel to
--       the consumers as messages, and each consumer's inbox holds back what is undecided (protocol
--       T4).
-- Locks: the new row.
-- Cost: one insert.
-- Errors: MQ001 (argument), MQ002 (name), MQ011 (the topic exists with other arguments).
--
-- Example:
--     select mqpg.create_topic('orders', queues => 16);
create function mqpg.create_topic(
    topic text, queues int default 8, retention interval default '7 days', kind text default 'normal'
) returns void
language plpgsql as $$
declare
    v_topic mqpg.topic;
begin
    perform mqpg._check_name('topic', create_topic.topic);
    perform mqpg._check_range('queues', create_topic.queues, 1, 1000);
    perform mqpg._interval('retention', create_topic.retention, '1 minute');
    perform mqpg._check_one_of('kind', create_topic.kind, array['normal', 'relay']);
    insert into mqpg.topic (name, queues, retention, kind)
    values (create_topic.topic, create_topic.queues, create_topic.retention, create_topic.kind)
    on conflict (name) do nothing;
    if found then
        return;
    end if;
    v_topic := mqpg._topic(create_topic.topic);
    if (v_topic.queues, v_topic.retention, v_topic.kind)
        is distinct from (create_topic.queues, create_topic.retention, create_topic.kind) then
        raise exception using errcode = 'MQ011', message = format(
            'topic %L exists with queues = %s, retention = %s, kind = %s', v_topic.name, v_topic.queues,
            v_topic.retention, v_topic.kind), hint = 'Call alter_topic() to change it.';
    end if;
end
$$;
comment on function mqpg.create_topic(text, int, interval, text) is
    'Create a topic with ordered queues; idempotent';

-- functions/topic/drop_producer_group.sql
-- Drops a producer group. It refuses while one of the group's half messages is undecided, because
-- no checker could be asked about it any more.
-- prepare() takes no lock on the group. A half message whose transaction is open during the drop
-- stays undecided, and the view half_pending shows it without a group, until its producer or
-- settle() decides it.
-- Arguments:
--   producer_group: name of the group.
-- Locks: the group's row.
-- Cost: the undecided half messages.
-- Errors: MQ004 (unknown group), MQ018 (undecided half messages).
create function mqpg.drop_producer_group(producer_group text) returns void
language plpgsql as $$
declare
    v_group mqpg.producer_group := mqpg._producer_group(drop_producer_group.producer_group);
begin
    perform from mqpg.producer_group g where g.producer_group_id = v_group.producer_group_id for update;
    if exists (select from mqpg.half_pending h where h.producer_group = v_group.name)
        or exists (select from mqpg.half_parked h where h.producer_group = v_group.name) then
        raise exception using errcode = 'MQ018',
            message = format('producer group %L has undecided half messages', v_group.name),
            hint = 'Call commit(), rollback() or settle() for them first; see the views half_pending and half_parked.';
    end if;
    delete from mqpg.producer_group g where g.producer_group_id = v_group.producer_group_id;
end
$$;
comment on function mqpg.drop_producer_group(text) is
    'Drop a producer group that has no undecided half messages';

-- functions/topic/drop_topic.sql
-- Drops a topic and its subscriptions. The stored messages disappear with their segments. A topic
-- created later under the same name starts at offset 0.
-- Senders take no lock on the topic. A message whose transaction is open during the drop is stored
-- but never delivered, and the view orphans shows it.
-- Arguments:
--   topic: name of the topic.
--   force: true drops the topic even while a message is undelivered or a half message undecided;
--       default false.
-- Locks: the topic's row.
-- Cost: one look at each queue, at the undecided half messages and at delayed messages.
-- Errors: MQ003 (unknown topic), MQ012 (messages would be lost).
create function mqpg.drop_topic(topic text, force boolean default false) returns void
language plpgsql as $$
declare
    v_topic mqpg.topic := mqpg._topic(drop_topic.topic);
    v_tick mqpg.tick;
begin
    perform from mqpg.topic t where t.topic_id = v_topic.topic_id for update;
    if not coalesce(drop_topic.force, false) then
        if exists (select from mqpg.subscription_lag l where l.topic = v_topic.name and l.lag > 0) then
            raise exception using errcode = 'MQ012',
                message = format('topic %L has undelivered messages', v_topic.name),
                hint = 'Call drop_topic() with force => true to drop the topic with them.';
        end if;
        if exists (select from mqpg.half_pending h where h.topic = v_topic.name)
            or exists (select from mqpg.half_parked h where h.topic = v_topic.name) then
            raise exception using errcode = 'MQ012',
                message = format('topic %L has undecided half messages', v_topic.name),
                hint = 'Call drop_topic() with force => true to drop the topic with them.';
        end if;
        select k.* into v_tick from mqpg.tick k order by k.tick_id desc limit 1;
        if exists (
            select from mqpg.commit_log l
            where l.topic_id = v_topic.topic_id and l.kind = 'n' and l.batch_id > v_tick.floor_id
                and not pg_visible_in_snapshot(l.xid, v_tick.snapshot)
        ) or exists (
            select from mqpg.op_log o
            where o.topic_id = v_topic.topic_id and o.op = 'c' and o.visible_at is null
                and o.xid >= pg_snapshot_xmin(v_tick.snapshot) and not pg_visible_in_snapshot(o.xid, v_tick.snapshot)
        ) or exists (
            select from mqpg.delayed d
            where d.topic_id = v_topic.topic_id
                and (d.visible_at > v_tick.due_until or not pg_visible_in_snapshot(d.xid, v_tick.snapshot))
                and (d.subscription_id = 0 or exists (
                    select from mqpg.subscription s where s.subscription_id = d.subscription_id))
        ) then
            raise exception using errcode = 'MQ012',
                message = format('topic %L has messages that are delayed or not visible yet', v_topic.name),
                hint = 'Call drop_topic() with force => true to drop the topic with them.';
        end if;
    end if;
    delete from mqpg.topic t where t.topic_id = v_topic.topic_id;
    insert into mqpg.dropped_topic (topic_id, name, forced)
    values (v_topic.topic_id, v_topic.name, coalesce(drop_topic.force, false));
end
$$;
comment on function mqpg.drop_topic(text, boolean) is
    'Drop a topic; without force it refuses while a message is undelivered or undecided';

-- functions/topic/_set_paused.sql
-- Pauses or resumes a topic or one subscription. For a broadcast group it does so for all members.
-- Locks: the topic's row, or the subscription's rows; for a broadcast group, so that no member
-- joins meanwhile.
-- Cost: one update.
-- Errors: MQ001, MQ002, MQ003, MQ005, 55P03.
create function mqpg._set_paused(topic text, consumer_group text, paused boolean) returns void
language plpgsql as $$
declare
    v_topic mqpg.topic := mqpg._topic(_set_paused.topic);
    v_group mqpg.subscription;
begin
    if _set_paused.consumer_group is null then
        update mqpg.topic t set paused = _set_paused.paused where t.topic_id = v_topic.topic_id;
        return;
    end if;
    v_group := mqpg._subscription(_set_paused.consumer_group, _set_paused.topic);
    perform mqpg._lock_group(v_group);
    update mqpg.subscription s set paused = _set_paused.paused
    where v_group.subscription_id in (s.subscription_id, s.member_of);
end
$$;
comment on function mqpg._set_paused(text, text, boolean) is
    'Internal: pause or resume a topic or subscription';

-- functions/topic/pause.sql
-- Stops the delivery of a topic, or of one subscription to it: receive() returns nothing until
-- resume(). Producers can still send, consumers can still acknowledge what they received, and
-- fetch() still reads. A topic and its subscriptions are paused independently of each other.
-- Repeating the call changes nothing.
-- Arguments:
--   topic: name of the topic.
--   consumer_group: name of the group whose subscription is paused; null (default) pauses the topic
--       for all groups.
-- Locks: the topic's row, or the subscription's rows.
-- Cost: one update.
-- Errors: MQ001, MQ002 (name), MQ003 (unknown topic), MQ005 (unknown subscription), 55P03.
create function mqpg.pause(topic text, consumer_group text default null) returns void
language sql as $$
    select mqpg._set_paused(pause.topic, pause.consumer_group, true)
$$;
comment on function mqpg.pause(text, text) is 'Stop the delivery of a topic or of one subscription';

-- functions/topic/purge_topic.sql
-- Counts everything that is in a topic's queues and retry lanes as consumed, for all its
-- subscriptions. All positions move to the end, open receipts become stale, and messages that wait
-- for their next attempt are not delivered again.
-- Messages that are not in a queue yet remain: undecided half messages, delayed messages, and
-- messages that were sent but not appended. Dead letters remain too (see discard_dead_letters()),
-- and bodies stay stored until retention is over.
-- Arguments:
--   topic: name of the topic.
-- Returns: how many deliveries were skipped.
-- Locks: the rows of broadcast groups and each queue's cursor lock, each waited for up to the
-- setting lock_timeout.
-- Cost: one cursor version for each queue of each subscription.
-- Errors: MQ001, MQ002 (name), MQ003 (unknown topic), 55P03, 40001.
create function mqpg.purge_topic(topic text) returns bigint
language plpgsql as $$
declare
    v_topic mqpg.topic := mqpg._topic(purge_topic.topic);
    v_row mqpg.subscription;
    v_queue int;
    v_left_out bigint := 0;
begin
    perform mqpg._lock_group(s) from mqpg.subscription s where s.topic_id = v_topic.topic_id;
    for v_row in
        select s.* from mqpg.subscription s where s.topic_id = v_topic.topic_id order by s.subscription_id
    loop
        for v_queue in -1..v_topic.queues - 1 loop
            perform mqpg._lock_cursor(v_row.subscription_id, v_queue);
            v_left_out := v_left_out + mqpg._move_cursor(
                v_row, v_queue, mqpg._tail(v_topic.topic_id, v_queue, case v_queue when -1 then v_row.subscription_id else 0 end),
                'purge');
        end loop;
        update mqpg.subscription s set retries_from = clock_timestamp()
        where s.subscription_id = v_row.subscription_id;
    end loop;
    return v_left_out;
end
$$;
comment on function mqpg.purge_topic(text) is
    'Count everything in a topic''s queues as consumed; returns how many deliveries were skipped';

-- functions/topic/resume.sql
-- Resumes the delivery that pause() stopped. Repeating the call changes nothing.
-- Arguments:
--   topic: name of the topic.
--   consumer_group: name of the group whose subscription is resumed; null (default) resumes the
--       topic. It does not resume subscriptions that were paused by name.
-- Locks: the topic's row, or the subscription's rows.
-- Cost: one update.
-- Errors: MQ001, MQ002 (name), MQ003 (unknown topic), MQ005 (unknown subscription), 55P03.
create function mqpg.resume(topic text, consumer_group text default null) returns void
language sql as $$
    select mqpg._set_paused(resume.topic, resume.consumer_group, false)
$$;
comment on function mqpg.resume(text, text) is
    'Resume the delivery of a topic or of one subscription';

-- functions/topic/subscribe.sql
-- Subscribes a consumer group to a topic. Repeated with equal arguments it changes nothing.
-- Arguments:
--   consumer_group, topic: names of the group and the topic.
--   mode: 'exclusive' (default): one consumer at a time reads a queue. 'shared': several ranges of
--       a queue are in flight at once. 'pinned': a queue stays with one named consumer until
--       unpin(). 'broadcast': every named consumer gets every message.
--   start: where to begin: 'earliest' (default; the queue's oldest offset), 'latest' (only messages
--       that come from now on), or a time (the first message that became visible then or later).
--   filter: a jsonpath that chooses messages by payload, headers, key and tag; null (default) or
--       'true' chooses all.
--   tags: tags that choose messages; null (default) or an empty array chooses all. With a filter,
--       both must match.
--   max_attempts: deliveries until a message becomes a dead letter, 1 to 10000; default 16.
--   retry_delay: time until the second attempt, doubled with each further one; default 10 s.
--   on_failure: 'skip' (default; the failed message is retried later and the queue continues),
--       'block_key' or 'block_queue' (messages behind it, of the same key or all, wait for it).
-- Locks: the new row.
-- Cost: one cursor row per queue.
-- Errors: MQ001 (argument), MQ002 (name), MQ003 (unknown topic), MQ011 (subscribed with other
-- arguments), MQ020 (filter), MQ024 (not for a relay topic).
--
-- Example:
--     select mqpg.subscribe('billing', 'orders', mode => 'shared', max_attempts => 5);
create function mqpg.subscribe(
    consumer_group text, topic text, mode text default 'exclusive', start text default 'earliest',
    filter jsonpath default null, tags text [] default null, max_attempts int default 16,
    retry_delay interval default '10 s', on_failure text default 'skip'
) returns void
language plpgsql as $$
declare
    v_topic mqpg.topic;
    v_new mqpg.subscription;
    v_old mqpg.subscription;
begin
    perform mqpg._check_name('consumer_group', subscribe.consumer_group);
    v_topic := mqpg._topic(subscribe.topic);
    v_new.topic_id := v_topic.topic_id;
    v_new.mode := subscribe.mode;
    v_new.start := subscribe.start;
    v_new.filter := case when subscribe.filter::text <> 'true' then subscribe.filter end;
    v_new.tags := nullif(subscribe.tags, '{}');
    v_new.max_attempts := subscribe.max_attempts;
    v_new.retry_delay := subscribe.retry_delay;
    v_new.on_failure := subscribe.on_failure;
    perform mqpg._check_target('start', subscribe.start);
    perform mqpg._check_subscription(v_new);
    perform mqpg._lock_topic(v_topic.topic_id);
    -- A look first, because a conflict would use up an id, and only two million ids fit into a cursor lock's key.
    insert into mqpg.subscription (
        consumer_group, topic_id, mode, start, filter, tags, max_attempts, retry_delay, on_failure)
    select subscribe.consumer_group, v_topic.topic_id, v_new.mode, v_new.start, v_new.filter, v_new.tags,
        v_new.max_attempts, v_new.retry_delay, v_new.on_failure
    where not exists (
        select from mqpg.subscription s
        where s.topic_id = v_topic.topic_id and s.consumer_group = subscribe.consumer_group and s.member = '')
    on conflict do nothing
    returning subscription_id into v_new.subscription_id;
    if v_new.subscription_id is not null then
        insert into mqpg.cursor (
            subscription_id, queue_id, slot, version, committed, claimed, at, action, claims)
        select v_new.subscription_id, q.queue_id, mqpg._cursor_slot(), 1, p.position, p.position,
            clock_timestamp(), 's', '{}'
        from generate_series(-1, v_topic.queues - 1) as q(queue_id),
            lateral (select case q.queue_id
                when -1 then 0 else mqpg._position(v_topic.topic_id, q.queue_id, 0, v_new.start)
            end) as p(position);
        return;
    end if;
    v_old := mqpg._subscription(subscribe.consumer_group, subscribe.topic);
    if (v_old.mode, v_old.start, v_old.filter::text, v_old.tags, v_old.max_attempts, v_old.retry_delay, v_old.on_failure)
        is distinct from (v_new.mode, v_new.start, v_new.filter::text, v_new.tags, v_new.max_attempts,
            v_new.retry_delay, v_new.on_failure) then
        raise exception using errcode = 'MQ011', message = format(
            'consumer group %L is subscribed to %L with other arguments', subscribe.consumer_group, subscribe.topic),
            hint = 'Call alter_subscription() to change it.';
    end if;
end
$$;
comment on function mqpg.subscribe(text, text, text, text, jsonpath, text [], int, interval, text) is
    'Subscribe a consumer group to a topic; idempotent';

-- functions/topic/unsubscribe.sql
-- Ends a subscription, or one member of a broadcast group. Its positions, claims, retries and dead
-- letters are deleted, and no message is stored for it any longer. What is in flight cannot be
-- acknowledged any more, because its receipts are refused. A group that subscribes again starts as
-- a new one.
-- Arguments:
--   consumer_group, topic: names of the group and the topic.
--   consumer: name of the member of a broadcast group to remove; null (default) ends the whole
--       subscription.
-- Locks: the subscription's rows.
-- Cost: one delete per row.
-- Errors: MQ001 (consumer in another mode than broadcast), MQ003 (unknown topic), MQ005 (unknown
-- subscription or member).
create function mqpg.unsubscribe(consumer_group text, topic text, consumer text default null) returns void
language plpgsql as $$
declare
    v_subscription mqpg.subscription := mqpg._subscription(unsubscribe.consumer_group, unsubscribe.topic);
begin
    if unsubscribe.consumer is null then
        delete from mqpg.subscription s where s.subscription_id = v_subscription.subscription_id;
        return;
    end if;
    if v_subscription.mode <> 'broadcast' then
        raise exception using errcode = 'MQ001', message = format(
            'consumer is allowed only in mode broadcast; consumer group %L reads topic %L in mode %s',
            unsubscribe.consumer_group, unsubscribe.topic, v_subscription.mode);
    end if;
    delete from mqpg.subscription s
    where s.member_of = v_subscription.subscription_id and s.member = unsubscribe.consumer;
    if not found then
        raise exception using errcode = 'MQ005', message = format(
            'consumer %L is not a member of broadcast group %L on topic %L', unsubscribe.consumer,
            unsubscribe.consumer_group, unsubscribe.topic);
    end if;
end
$$;
comment on function mqpg.unsubscribe(text, text, text) is
    'End a subscription, or one member of a broadcast group';

-- functions/produce/_store_once.sql
-- Stores messages of which some carry a dedup id: each is a record batch of its own, and a repeated id
-- stores nothing and gives the first message's id. Ids are in argument order.
-- Locks: as _first_sends. Cost: a row a message. Errors: as _first_sends.
create function mqpg._store_once(
    topic mqpg.topic, kind "char", payloads text [], keys text [], tags text [], headers jsonb [],
    dedup_ids text [], visible_at timestamptz
) returns bigint []
language plpgsql as $$
declare
    v_xid xid8 := pg_current_xact_id();    -- before any batch id is drawn
    v_now timestamptz := clock_timestamp();
    v_ids bigint [] := '{}';
    v_first bigint [];
begin
    for v_i in 1..cardinality(_store_once.payloads) loop
        v_ids[v_i] := nextval('mqpg.batch_id') * 1024;
    end loop;
    v_first := mqpg._first_sends(_store_once.topic.topic_id, _store_once.dedup_ids, v_ids);
    with message as (
        select u.m / 1024 as batch_id, u.p, u.k, u.t, u.h, case
            when u.k is null then mqpg._queue_of(u.m / 1024, _store_once.topic.queues)
            else mqpg._queue_of(u.k, _store_once.topic.queues)
        end as queue_id
        from unnest(v_ids, v_first, _store_once.payloads, _store_once.keys, _store_once.tags, _store_once.headers)
            as u(m, f, p, k, t, h)
        where u.f is null
    ),
    stored as (
        insert into mqpg.commit_log (
            batch_id, xid, born_at, topic_id, queue_id, n, kind, keys, tags, headers, payloads)
        select m.batch_id, v_xid, v_now, _store_once.topic.topic_id, m.queue_id, 1, _store_once.kind,
            case when m.k is not null then array[m.k] end, case when m.t is not null then array[m.t] end,
            case when m.h is not null then array[m.h] end, array[m.p::json]
        from message m
    )
    insert into mqpg.delayed (visible_at, xid, first_id, n, written_at, topic_id, queue_id)
    select _store_once.visible_at, v_xid, m.batch_id * 1024, 1, v_now, _store_once.topic.topic_id, m.queue_id
    from message m
    where _store_once.kind = 'd';
    return (select array_agg(coalesce(u.f, u.m) order by u.o)
        from unnest(v_ids, v_first) with ordinality as u(m, f, o));
end
$$;
comment on function mqpg._store_once(
    mqpg.topic, "char", text [], text [], text [], jsonb [], text [], timestamptz
) is 'Internal: write messages with dedup ids into the commit log';

-- functions/produce/_visible_at.sql
-- When a delayed message becomes visible; null: at once. MQ001 for both arguments given, a negative delay,
-- or a time behind the topic's retention.
-- Locks: none. Cost: none to speak of.
create function mqpg._visible_at(topic mqpg.topic, delay interval, deliver_at timestamptz) returns timestamptz
language plpgsql as $$
declare
    v_now timestamptz := clock_timestamp();
    v_at timestamptz := coalesce(_visible_at.deliver_at, v_now + _visible_at.delay);
begin
    if _visible_at.delay is not null and _visible_at.deliver_at is not null then
        raise exception using errcode = 'MQ001', message = 'give delay or deliver_at, not both';
    end if;
    if _visible_at.delay < interval '0' then
        raise exception using errcode = 'MQ001',
            message = format('delay must not be negative, but is %s', _visible_at.delay);
    end if;
    if v_at > v_now + _visible_at.topic.retention then
        raise exception using errcode = 'MQ001', message = format(
            '%s must lie within the topic''s retention of %s',
            case when _visible_at.delay is null then 'deliver_at' else 'delay' end, _visible_at.topic.retention);
    end if;
    return case when v_at > v_now then v_at end;
end
$$;
comment on function mqpg._visible_at(mqpg.topic, interval, timestamptz) is 'Internal: due time of a delayed message';

-- functions/produce/recall.sql
-- Takes back a delayed message (a delayed send, or a half message committed with a delay) before it
-- is due.
-- Arguments:
--   message_id: id of the message.
-- Returns: true when the message will not be delivered, also when the call is repeated; false when
-- it is too late.
-- Locks: 1836150839, 0 (shared) and one of the message's own, until the end of the transaction. The
-- appender sees by them which messages it must leave for later. Also the decision's key.
-- Cost: one row read, one row written.
-- Errors: MQ001 (null, or not a delayed message), 40001 (REPEATABLE READ callers).
create function mqpg.recall(message_id bigint) returns boolean
language plpgsql as $$
declare
    v_place record;
    v_standing "char";
begin
    select d.topic_id, d.queue_id into v_place from mqpg.delayed d
    where d.first_id <= recall.message_id and d.first_id > recall.message_id - 1024
        and recall.message_id < d.first_id + d.n and d.subscription_id = 0
    limit 1;
    if not found then
        raise exception using errcode = 'MQ001',
            message = format('message_id must be the id of a delayed message, not %s',
                coalesce(recall.message_id::text, 'null'));
    end if;
    perform mqpg._force_sync();
    perform pg_advisory_xact_lock_shared(1836150839, 0);
    perform pg_advisory_xact_lock(1836150840, hashint8(recall.message_id));
    insert into mqpg.op_log (message_id, stage, order_no, xid, op, at, topic_id, queue_id, decided_by)
    values (
        recall.message_id, 1, nextval('mqpg.batch_id'), pg_current_xact_id(), 'r', clock_timestamp(),
        v_place.topic_id, v_place.queue_id, 'producer')
    on conflict do nothing;
    select o.op into v_standing from mqpg.op_log o where o.message_id = recall.message_id and o.stage = 1;
    return v_standing = 'r';
end
$$;
comment on function mqpg.recall(bigint) is 'Take back a delayed message before it is due';

-- functions/produce/send.sql
-- Sends one message in the caller's transaction (protocol T1). The message becomes visible with the
-- first append() after the commit, or when its delay is over.
-- Arguments:
--   topic: name of the topic.
--   payload: the body, JSON as text, json or jsonb; at most the topic's max_payload bytes.
--   key: messages with equal keys go to the same queue, in order; null (default) picks any queue.
--       At most 512 bytes.
--   tag: a word that subscriptions can choose by; at most 512 bytes; default null.
--   headers: a JSON object beside the payload; default null.
--   delay: how long after now the message becomes visible, at most the topic's retention; null
--       (default): at once.
--   dedup_id: an id seen before within the setting dedup_window stores nothing and returns the
--       first message's id; default null.
--   deliver_at: the time when the message becomes visible, instead of delay, at most the topic's
--       retention from now; default null.
-- Returns: the message id.
-- Locks: only the new row. With a dedup_id it waits for a running send of the same id.
-- Cost: one row of the commit log.
-- Errors: MQ001 (argument), MQ003 (unknown topic), MQ010 (payload too large), 22P02 (not JSON).
--
-- Example:
--     begin;
--     insert into orders (id, total) values (7, 100);
--     select mqpg.send('orders', '{"id": 7}', key => '7');
--     commit;    -- both or neither
create function mqpg.send(
    topic text, payload text, key text default null, tag text default null, headers jsonb default null,
    delay interval default null, dedup_id text default null, deliver_at timestamptz default null
) returns bigint
language plpgsql as $$
declare
    v_topic mqpg.topic;
    v_xid xid8;
    v_batch bigint;
    v_visible_at timestamptz;
    v_kind "char" := 'n';
begin
    select t.* into v_topic from mqpg.topic t where t.name = send.topic;
    if not found then
        v_topic := mqpg._topic(send.topic);
    end if;
    if send.payload is null then
        raise exception using errcode = 'MQ001', message = 'payload must not be null';
    end if;
    if octet_length(send.payload) > v_topic.max_payload then
        raise exception using errcode = 'MQ010', message = format(
            'payload has %s bytes; topic %L allows %s', octet_length(send.payload), send.topic, v_topic.max_payload);
    end if;
    if octet_length(send.key) > 512 or octet_length(send.tag) > 512 then
        raise exception using errcode = 'MQ001', message = 'key and tag must not be longer than 512 bytes';
    end if;
    if send.delay is not null or send.deliver_at is not null or send.dedup_id is not null then
        v_visible_at := mqpg._visible_at(v_topic, send.delay, send.deliver_at);
        v_kind := case when v_visible_at is null then 'n' else 'd' end;
        return (mqpg._store_once(
            v_topic, v_kind, array[send.payload], array[send.key],
            array[send.tag], array[send.headers], array[send.dedup_id], v_visible_at))[1];
    end if;
    v_xid := pg_current_xact_id();    -- before the batch id: the appender relies on this order
    v_batch := nextval('mqpg.batch_id');
    insert into mqpg.commit_log (
        batch_id, xid, born_at, topic_id, queue_id, n, kind, keys, tags, headers, payloads)
    values (
        v_batch, v_xid, clock_timestamp(), v_topic.topic_id,
        case
            when send.key is null then mqpg._queue_of(v_batch, v_topic.queues)
            else mqpg._queue_of(send.key, v_topic.queues)
        end,
        1, 'n',
        case when send.key is not null then array[send.key] end,
        case when send.tag is not null then array[send.tag] end,
        case when send.headers is not null then array[send.headers] end,
        array[send.payload::json]);
    return v_batch * 1024;
end
$$;
comment on function mqpg.send(text, text, text, text, jsonb, interval, text, timestamptz) is
    'Send a message in the caller''s transaction; returns its id';

create function mqpg.send(
    topic text, payload json, key text default null, tag text default null, headers jsonb default null,
    delay interval default null, dedup_id text default null, deliver_at timestamptz default null
) returns bigint
language sql as $$
    select mqpg.send(send.topic, send.payload::text, send.key, send.tag, send.headers, send.delay, send.dedup_id,
        send.deliver_at)
$$;
comment on function mqpg.send(text, json, text, text, jsonb, interval, text, timestamptz) is
    'Send a message in the caller''s transaction; returns its id';

create function mqpg.send(
    topic text, payload jsonb, key text default null, tag text default null, headers jsonb default null,
    delay interval default null, dedup_id text default null, deliver_at timestamptz default null
) returns bigint
language sql as $$
    select mqpg.send(send.topic, send.payload::text, send.key, send.tag, send.headers, send.delay, send.dedup_id,
        send.deliver_at)
$$;
comment on function mqpg.send(text, jsonb, text, text, jsonb, interval, text, timestamptz) is
    'Send a message in the caller''s transaction; returns its id';

-- functions/produce/send_batch.sql
-- Sends many messages of one topic in the caller's transaction. An empty batch returns nothing, and
-- a batch with an invalid element is refused as a whole.
-- Arguments:
--   topic: name of the topic.
--   payloads: the bodies, JSON as text, json or jsonb; none may be null.
--   keys, tags, headers, dedup_ids: null (default), or arrays as long as payloads; an element may
--       be null. Each means what it means in send().
--   delay: how long after now the messages become visible, at most the topic's retention; null
--       (default): at once.
-- Returns: the message ids, in argument order.
-- Locks: only the new rows. With dedup_ids it waits for running sends of the same ids.
-- Cost: one row of the commit log for up to 1024 messages or about 256 KiB; with keys, one row for
-- each queue.
-- Errors: MQ001 (argument), MQ003 (unknown topic), MQ010 (payload too large), 22P02 (not JSON).
--
-- Example:
--     select mqpg.send_batch('orders', array['{"id": 7}', '{"id": 8}'], keys => array['7', '8']);
create function mqpg.send_batch(
    topic text, payloads text [], keys text [] default null, tags text [] default null,
    headers jsonb [] default null, delay interval default null, dedup_ids text [] default null
) returns setof bigint
language plpgsql set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off as $$
declare
    v_topic mqpg.topic;
    v_n int := cardinality(send_batch.payloads);
    v_xid xid8;
    v_batch bigint;
    v_visible_at timestamptz;
    v_kind "char" := 'n';
begin
    select t.* into v_topic from mqpg.topic t where t.name = send_batch.topic;
    if not found then
        v_topic := mqpg._topic(send_batch.topic);
    end if;
    perform mqpg._check_batch(
        v_topic.max_payload, send_batch.payloads, send_batch.keys, send_batch.tags, send_batch.headers);
    perform mqpg._check_shape('dedup_ids', send_batch.dedup_ids, v_n);
    if send_batch.delay is not null then
        v_visible_at := mqpg._visible_at(v_topic, send_batch.delay, null);
        v_kind := case when v_visible_at is null then 'n' else 'd' end;
    end if;
    if v_n = 0 then
        return;
    end if;
    if cardinality(array_remove(send_batch.dedup_ids, null)) > 0 then
        return query select unnest(mqpg._store_once(
            v_topic, v_kind, send_batch.payloads, send_batch.keys,
            send_batch.tags, send_batch.headers, send_batch.dedup_ids, v_visible_at));
    elsif v_visible_at is not null or v_n > 1024 or pg_column_size(send_batch.payloads) > 262144
        or cardinality(array_remove(send_batch.keys, null)) > 0 then
        return query select unnest(mqpg._store(
            v_topic, v_kind, send_batch.payloads, send_batch.keys,
            send_batch.tags, send_batch.headers, v_visible_at));
    else
        v_xid := pg_current_xact_id();    -- before the batch id: the appender relies on this order
        v_batch := nextval('mqpg.batch_id');
        insert into mqpg.commit_log (
            batch_id, xid, born_at, topic_id, queue_id, n, kind, tags, headers, payloads)
        values (
            v_batch, v_xid, clock_timestamp(), v_topic.topic_id, mqpg._queue_of(v_batch, v_topic.queues), v_n, 'n',
            case when cardinality(array_remove(send_batch.tags, null)) > 0 then send_batch.tags[:] end,
            case when cardinality(array_remove(send_batch.headers, null)) > 0 then send_batch.headers[:] end,
            send_batch.payloads[:]::json []);
        return query select v_batch * 1024 + i from generate_series(0, v_n - 1) as i;
    end if;
end
$$;
comment on function mqpg.send_batch(text, text [], text [], text [], jsonb [], interval, text []) is
    'Send many messages in the caller''s transaction; returns their ids in argument order';

create function mqpg.send_batch(
    topic text, payloads json [], keys text [] default null, tags text [] default null,
    headers jsonb [] default null, delay interval default null, dedup_ids text [] default null
) returns setof bigint
language sql as $$
    select mqpg.send_batch(send_batch.topic, send_batch.payloads::text [], send_batch.keys, send_batch.tags,
        send_batch.headers, send_batch.delay, send_batch.dedup_ids)
$$;
comment on function mqpg.send_batch(text, json [], text [], text [], jsonb [], interval, text []) is
    'Send many messages in the caller''s transaction; returns their ids in argument order';

create function mqpg.send_batch(
    topic text, payloads jsonb [], keys text [] default null, tags text [] default null,
    headers jsonb [] default null, delay interval default null, dedup_ids text [] default null
) returns setof bigint
language sql as $$
    select mqpg.send_batch(send_batch.topic, send_batch.payloads::text [], send_batch.keys, send_batch.tags,
        send_batch.headers, send_batch.delay, send_batch.dedup_ids)
$$;
comment on function mqpg.send_batch(text, jsonb [], text [], text [], jsonb [], interval, text []) is
    'Send many messages in the caller''s transaction; returns their ids in argument order';

-- functions/transact/_check_half_times.sql
-- Refuses a check_after under 10 ms, a negative delay, and either behind the topic's retention (MQ001).
-- Locks: none. Cost: none to speak of.
create function mqpg._check_half_times(topic mqpg.topic, check_after interval, delay interval) returns void
language plpgsql immutable as $$
begin
    if _check_half_times.check_after is not null then
        perform mqpg._interval('check_after', _check_half_times.check_after, '10 milliseconds');
    end if;
    if _check_half_times.delay is not null then
        perform mqpg._interval('delay', _check_half_times.delay, '0');
    end if;
    if greatest(_check_half_times.check_after, _check_half_times.delay) > _check_half_times.topic.retention then
        raise exception using errcode = 'MQ001', message = format(
            '%s must lie within the topic''s retention of %s',
            case when _check_half_times.check_after > _check_half_times.topic.retention then 'check_after' else 'delay' end,
            _check_half_times.topic.retention);
    end if;
end
$$;
comment on function mqpg._check_half_times(mqpg.topic, interval, interval)
    is 'Internal: refuse invalid times of a half message';

-- functions/transact/_decide_batch.sql
-- Writes one decision over many half messages; outcomes come in argument order, and a handle named twice
-- is decided once. All get one order number, so they are ordered by message id among themselves (I6).
-- Keys are taken in ascending order by everybody, hence no deadlock.
-- Locks: the op_log keys; waits for decisions that are under way. Cost: one row read and one written each.
-- Errors: MQ001 (nulls, lengths), MQ010, 22P02 (not JSON), 40001 (REPEATABLE READ callers).
create function mqpg._decide_batch(handles text [], op "char", decided_by text, payloads text [] default null)
returns table (handle text, outcome mqpg.outcome)
language plpgsql set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off as $$
declare
    v_xid xid8;
    v_order bigint;
    v_now timestamptz;
    v_named record;         -- handles of this broker: places, lives, ids, nonces; batches: distinct, ascending
    v_ids bigint [];        -- per handle: the message id, null where unknown
    v_facts record;         -- per handle: where its half belongs
    v_halves bigint [];     -- distinct, ascending
    v_finals bigint [];     -- per element of v_halves: the final payload's batch id
    v_topics int [];        -- likewise: topic, queue, delay
    v_queues smallint [];
    v_delays interval [];
    v_relays boolean [];    -- likewise: whether it belongs to a relay topic, true or null
    v_relayed bigint [] := '{}';    -- those of v_decided that do
    v_decided bigint [];    -- those that this call decided
begin
    if array_ndims(_decide_batch.handles) > 1 then
        raise exception using errcode = 'MQ001', message = 'handles must be a one-dimensional array';
    end if;
    if _decide_batch.handles is null or array_position(_decide_batch.handles, null) is not null then
        raise exception using errcode = 'MQ001', message = 'handles must not be null, nor any of them';
    end if;
    perform mqpg._check_shape('payloads', _decide_batch.payloads, cardinality(_decide_batch.handles));
    if cardinality(_decide_batch.handles) = 0 then
        return;
    end if;
    perform mqpg._force_sync();
    select array_agg(p.place) as places, array_agg(p.incarnation) as lives, array_agg(p.message_id) as ids,
        array_agg(p.nonce) as nonces, array_agg(distinct p.message_id / 1024) as batches into v_named
    from mqpg._parse_handles(_decide_batch.handles) p
    where p.broker_id = (select b.broker_id from mqpg.broker b);
    -- one look at each record batch, however many of its halves are named
    with named as materialized (
        select n.place, n.life, n.id, n.nonce
        from unnest(v_named.places, v_named.lives, v_named.ids, v_named.nonces) as n(place, life, id, nonce)
    ),
    batch as materialized (
        select l.batch_id, l.n, l.nonce, l.incarnation, l.topic_id, l.queue_id, l.delay, l.relay
        from mqpg.commit_log l
        where l.batch_id = any(v_named.batches)
            and l.batch_id between v_named.batches[1] and v_named.batches[cardinality(v_named.batches)]
    ),
    half as (
        select n.place, n.id, b.topic_id, b.queue_id, b.delay, b.relay
        from named n
        join batch b on b.batch_id = n.id / 1024 and b.nonce = n.nonce and b.incarnation = n.life
            and n.id % 1024 < b.n
        union all
        select n.place, n.id, h.topic_id, h.queue_id, h.delay, h.relay
        from named n
        join mqpg.held h on h.message_id = n.id
        where h.kind = 'h' and h.nonce = n.nonce and h.incarnation = n.life
            and n.id / 1024 not in (select b.batch_id from batch b)
    )
    select array_agg(h.id order by p.place) as ids, array_agg(h.topic_id order by p.place) as topics,
        array_agg(h.queue_id order by p.place) as queues, array_agg(h.delay order by p.place) as delays,
        array_agg(h.relay order by p.place) as relays into v_facts
    from generate_series(1, cardinality(_decide_batch.handles)) as p(place)
    left join half h using (place);
    v_ids := v_facts.ids;
    v_xid := pg_current_xact_id();    -- before the order number is drawn
    v_order := nextval('mqpg.batch_id');
    v_now := clock_timestamp();
    select array_agg(d.id order by d.id), array_agg(d.final order by d.id), array_agg(d.topic_id order by d.id),
        array_agg(d.queue_id order by d.id), array_agg(d.delay order by d.id), array_agg(d.relay order by d.id)
    into v_halves, v_finals, v_topics, v_queues, v_delays, v_relays
    from (
        select distinct on (u.id) u.id, u.topic_id, u.queue_id, u.delay, u.relay,
            case when u.p is not null or u.relay then nextval('mqpg.batch_id') end as final
        from unnest(v_ids, _decide_batch.payloads, v_facts.topics, v_facts.queues, v_facts.delays, v_facts.relays)
            with ordinality as u(id, p, topic_id, queue_id, delay, relay, o)
        where u.id is not null order by u.id, u.o
    ) as d;
    with stored as (
        insert into mqpg.op_log (
            message_id, stage, order_no, xid, op, deliver_id, at, visible_at, topic_id, queue_id, decided_by)
        select h.id, 0, v_order, v_xid, _decide_batch.op, h.final * 1024, v_now,
            case when _decide_batch.op = 'c' then case when h.relay then 'infinity' else v_now + h.delay end end, h.topic_id, h.queue_id,
            _decide_batch.decided_by
        from unnest(v_halves, v_finals, v_topics, v_queues, v_delays, v_relays)
            as h(id, final, topic_id, queue_id, delay, relay)
        order by h.id
        on conflict do nothing returning message_id
    )
    select coalesce(array_agg(s.message_id), '{}') into v_decided from stored s;
    if array_position(v_relays, true) is not null then
        v_relayed := array(
            select h.id from unnest(v_halves, v_relays) as h(id, relay) where h.relay and h.id = any(v_decided));
        perform mqpg._relay_decisions(v_xid, v_now, _decide_batch.op, v_ids, _decide_batch.payloads, v_halves, v_finals,
            v_relayed);
    end if;
    if _decide_batch.op = 'c' then
        perform mqpg._store_finals(v_xid, v_now, v_ids, _decide_batch.payloads, v_halves, v_finals, case
            when v_relayed <> '{}' then array(select unnest(v_decided) except select unnest(v_relayed))
            else v_decided
        end);
        if cardinality(array_remove(v_delays, null)) > 0 then
            insert into mqpg.delayed (visible_at, xid, first_id, deliver_id, n, written_at, topic_id, queue_id)
            select o.visible_at, v_xid, o.message_id, o.deliver_id, 1, v_now, o.topic_id, o.queue_id
            from mqpg.op_log o
            where o.message_id = any(v_decided) and o.message_id between v_halves[1] and v_halves[cardinality(v_halves)]
                and o.stage = 0 and o.visible_at < 'infinity';
        end if;
    end if;
    if cardinality(v_decided) = cardinality(_decide_batch.handles) then
        return query
        select u.handle, (case _decide_batch.op when 'c' then 'committed' else 'rolled_back' end)::mqpg.outcome
        from unnest(_decide_batch.handles) as u(handle);
        return;
    end if;
    return query
    select u.handle, case
        when u.id is null then 'unknown'
        when u.id = any(v_decided) and row_number() over (partition by u.id order by u.o) = 1
            then case _decide_batch.op when 'c' then 'committed' else 'rolled_back' end
        else case s.op when 'c' then 'already_committed' else 'already_rolled_back' end
    end::mqpg.outcome
    from unnest(_decide_batch.handles, v_ids) with ordinality as u(handle, id, o)
    left join lateral (
        select l.op from mqpg.op_log l where l.message_id = u.id and l.stage = 0
    ) as s on true
    order by u.o;
end
$$;
comment on function mqpg._decide_batch(text [], "char", text, text [])
    is 'Internal: decide many half messages; first decisions stand';

-- functions/transact/_half_facts.sql
-- Where a half message belongs; from held where its segment is gone.
-- Locks: none. Cost: one row of the commit log.
create function mqpg._half_facts(message_id bigint)
returns table (topic_id int, queue_id smallint, delay interval, key text, tag text, headers jsonb)
language sql stable as $$
    select l.topic_id, l.queue_id, l.delay, l.keys[_half_facts.message_id % 1024 + 1],
        l.tags[_half_facts.message_id % 1024 + 1], l.headers[_half_facts.message_id % 1024 + 1]
    from mqpg.commit_log l
    where l.batch_id = _half_facts.message_id / 1024
    union all
    select h.topic_id, h.queue_id, h.delay, h.key, h.tag, h.headers
    from mqpg.held h
    where h.message_id = _half_facts.message_id
        and not exists (select from mqpg.commit_log l where l.batch_id = _half_facts.message_id / 1024)
$$;
comment on function mqpg._half_facts(bigint) is 'Internal: topic, queue, delay, key, tag and headers of a half';

-- functions/transact/_parse_handles.sql
-- As _parse_handle, for many at once: place, broker, incarnation, message id and nonce of those that are handles.
-- Locks: none. Cost: one regular expression each.
create function mqpg._parse_handles(handles text [])
returns table (place bigint, broker_id text, incarnation int, message_id bigint, nonce uuid)
language sql immutable as $$
    with part as materialized (    -- casts only behind the check
        select u.o, string_to_array(u.handle, '.') as p
        from unnest(_parse_handles.handles) with ordinality as u(handle, o)
        where u.handle ~ '^[0-9a-f]+\.[1-9][0-9]*\.[1-9][0-9]*\.[0-9a-f]+$'
    ),
    fit as materialized (
        select f.o, f.p from part f
        where length(f.p[1]) = 12 and length(f.p[2]) <= 9 and length(f.p[3]) <= 18 and length(f.p[4]) = 32
    )
    select f.o, f.p[1], f.p[2]::int, f.p[3]::bigint, f.p[4]::uuid from fit f
$$;
comment on function mqpg._parse_handles(text []) is 'Internal: parts of many handles';

-- functions/transact/_store_finals.sql
-- Writes the final payloads of a commit_batch, for the halves which that call decided: a handle named
-- twice keeps the payload of its first place.
-- Locks: none beyond the new rows. Cost: one row a final payload. Errors: MQ010, 22P02 (not JSON).
create function mqpg._store_finals(
    xid xid8, at timestamptz, ids bigint [], payloads text [], halves bigint [], finals bigint [], decided bigint []
) returns void
language plpgsql as $$
begin
    if _store_finals.payloads is null then
        return;
    end if;
    insert into mqpg.commit_log (
        batch_id, xid, born_at, topic_id, queue_id, n, kind, keys, tags, headers, payloads)
    select h.final, _store_finals.xid, _store_finals.at, f.topic_id, f.queue_id, 1, 'f',
        case when f.key is not null then array[f.key] end, case when f.tag is not null then array[f.tag] end,
        case when f.headers is not null then array[f.headers] end, array[p.payload::json]
    from unnest(_store_finals.halves, _store_finals.finals) as h(id, final)
    join lateral mqpg._half_facts(h.id) as f on true
    join lateral (
        select u.payload from unnest(_store_finals.ids, _store_finals.payloads) with ordinality as u(id, payload, o)
        where u.id = h.id order by u.o limit 1
    ) as p on true
    join lateral mqpg._check_final('payloads', f.topic_id, p.payload) as checked on true
    where h.id = any(_store_finals.decided) and h.final is not null;
end
$$;
comment on function mqpg._store_finals(xid8, timestamptz, bigint [], text [], bigint [], bigint [], bigint [])
    is 'Internal: write the final payloads of a commit_batch';

-- functions/transact/_prepared_before.sql
-- Registers the dedup id of a half message: null where it is new, else the handle of the half that had it first within
-- the dedup window, whatever has become of that half. A repeated PREPARE is absorbed by this, and one that comes after
-- the COMMIT arms nothing again.
-- Locks: the dedup id's keys; waits for a running prepare of the same id. Cost: two index inserts.
-- Errors: MQ001 (length of the id), MQ018 (the id is a message's of send()), 40001 (REPEATABLE READ callers).
create function mqpg._prepared_before(topic_id int, dedup_id text, message_id bigint) returns text
language plpgsql as $$
declare
    v_first bigint := (mqpg._first_sends(
        _prepared_before.topic_id, array[_prepared_before.dedup_id], array[_prepared_before.message_id]))[1];
    v_half record;
begin
    if v_first is null then
        return null;
    end if;
    select h.incarnation, h.nonce into v_half from mqpg._half_row(v_first) h where h.nonce is not null;
    if not found then
        raise exception using errcode = 'MQ018', message = format(
            'dedup_id %L was used by message %s, which is no half message or is gone', _prepared_before.dedup_id, v_first);
    end if;
    return mqpg._handle(v_half.incarnation, v_first, v_half.nonce);
end
$$;
comment on function mqpg._prepared_before(int, text, bigint) is 'Internal: first half with a dedup id';

-- functions/transact/_relay_prepares.sql
-- Sends the PREPARE of halves that were just stored in a relay topic (protocol T4): a message for each, in the half's
-- queue, with its key, tag and body. The halves stay what they are, so check-back and decisions go on as ever.
-- Locks: none beyond the new rows. Cost: one row a record batch. Errors: MQ001 (headers that are no object).
create function mqpg._relay_prepares(batch_ids bigint []) returns void
language plpgsql set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off as $$
declare
    v_least bigint := (select min(b.id) from unnest(_relay_prepares.batch_ids) as b(id));
    v_most bigint := (select max(b.id) from unnest(_relay_prepares.batch_ids) as b(id));
    v_half mqpg.commit_log;
begin
    for v_half in
        select l.* from mqpg.commit_log l
        where l.batch_id = any(_relay_prepares.batch_ids) and l.batch_id between v_least and v_most
        order by l.batch_id
    loop
        insert into mqpg.commit_log (
            batch_id, xid, born_at, topic_id, queue_id, n, kind, keys, tags, headers, payloads)
        values (
            nextval('mqpg.batch_id'), v_half.xid, v_half.born_at, v_half.topic_id, v_half.queue_id, v_half.n, 'n',
            v_half.keys, v_half.tags, array(
                select mqpg._phase_headers(v_half.headers[i + 1], 'prepare',
                    mqpg._handle(v_half.incarnation, v_half.batch_id * 1024 + i, v_half.nonce))
                from generate_series(0, v_half.n - 1) as i order by i),
            v_half.payloads);
    end loop;
end
$$;
comment on function mqpg._relay_prepares(bigint []) is 'Internal: send the PREPARE of a relay topic''s halves';

-- functions/transact/commit.sql
-- Commits a half message (protocol T2, step 3): idempotent, the first decision stands, and the outcome says
-- which it was. A payload given here replaces the prepared one. A delayed half counts its delay from here.
-- Locks: the decision's key; waits for another decision under way. Cost: one row read, one written.
-- Errors: MQ001 (null), MQ010, 22P02 (not JSON).
create function mqpg.commit(handle text) returns mqpg.outcome
language sql as $$
    select mqpg._decide(commit.handle, 'c', 'producer')
$$;
comment on function mqpg.commit(text) is 'Commit a half message; the first decision stands';

create function mqpg.commit(handle text, payload text) returns mqpg.outcome
language plpgsql as $$
begin
    if commit.payload is null then
        raise exception using errcode = 'MQ001', message = 'payload must not be null';
    end if;
    return mqpg._decide(commit.handle, 'c', 'producer', null, commit.payload);
end
$$;
comment on function mqpg.commit(text, text) is
    'Commit a half message with its final payload; the first decision stands';

create function mqpg.commit(handle text, payload json) returns mqpg.outcome
language plpgsql as $$
begin
    if commit.payload is null then
        raise exception using errcode = 'MQ001', message = 'payload must not be null';
    end if;
    return mqpg._decide(commit.handle, 'c', 'producer', null, commit.payload::text);
end
$$;
comment on function mqpg.commit(text, json) is
    'Commit a half message with its final payload; the first decision stands';

create function mqpg.commit(handle text, payload jsonb) returns mqpg.outcome
language plpgsql as $$
begin
    if commit.payload is null then
        raise exception using errcode = 'MQ001', message = 'payload must not be null';
    end if;
    return mqpg._decide(commit.handle, 'c', 'producer', null, commit.payload::text);
end
$$;
comment on function mqpg.commit(text, jsonb) is
    'Commit a half message with its final payload; the first decision stands';

-- functions/transact/commit_batch.sql
-- Commits many half messages at once; outcomes in argument order. A null element of payloads keeps the
-- prepared payload. Handles are decided each for itself: an unknown one does not stop the others.
-- Locks: the decisions' keys in ascending order; waits for others under way. Cost: one row read and one
-- written each. Errors: MQ001 (nulls, lengths), MQ010, 22P02 (not JSON).
create function mqpg.commit_batch(handles text []) returns table (handle text, outcome mqpg.outcome)
language sql as $$
    select d.handle, d.outcome from mqpg._decide_batch(commit_batch.handles, 'c', 'producer') d
$$;
comment on function mqpg.commit_batch(text []) is 'Commit many half messages; outcomes in argument order';

create function mqpg.commit_batch(handles text [], payloads text [])
returns table (handle text, outcome mqpg.outcome)
language sql as $$
    select d.handle, d.outcome
    from mqpg._decide_batch(commit_batch.handles, 'c', 'producer', coalesce(commit_batch.payloads, '{}')) d
$$;
comment on function mqpg.commit_batch(text [], text []) is 'Commit many half messages with final payloads';

create function mqpg.commit_batch(handles text [], payloads json [])
returns table (handle text, outcome mqpg.outcome)
language sql as $$
    select d.handle, d.outcome
    from mqpg._decide_batch(commit_batch.handles, 'c', 'producer', coalesce(commit_batch.payloads::text [], '{}')) d
$$;
comment on function mqpg.commit_batch(text [], json []) is 'Commit many half messages with final payloads';

create function mqpg.commit_batch(handles text [], payloads jsonb [])
returns table (handle text, outcome mqpg.outcome)
language sql as $$
    select d.handle, d.outcome
    from mqpg._decide_batch(commit_batch.handles, 'c', 'producer', coalesce(commit_batch.payloads::text [], '{}')) d
$$;
comment on function mqpg.commit_batch(text [], jsonb []) is 'Commit many half messages with final payloads';

-- functions/transact/local_begin.sql
-- Writes the ledger row of a local transaction in this database (protocol T2, step 2): call it first in the
-- local transaction. It fails, and with it the transaction, where a check-back came first (MQ017) or the
-- half is decided or was begun before (MQ018). The local commit waits for the disk whatever the session's
-- synchronous_commit says: a message must not outlive its business change.
-- Locks: the ledger key; waits for a check-back under way. Cost: one insert. Errors: MQ001, MQ006, MQ017, MQ018.
create function mqpg.local_begin(handle text) returns void
language plpgsql as $$
declare
    v_half record;
    v_entry text;
    v_decision "char";
begin
    if local_begin.handle is null then
        raise exception using errcode = 'MQ001', message = 'handle must not be null';
    end if;
    select h.* into v_half from mqpg._half(local_begin.handle) h;
    if not v_half.known then
        raise exception using errcode = 'MQ006', message = format('handle %L names no half message here', local_begin.handle);
    end if;
    perform mqpg._force_sync();
    insert into mqpg.ledger (handle) values (local_begin.handle) on conflict do nothing;
    if not found then
        select l.entry into strict v_entry from mqpg.ledger l where l.handle = local_begin.handle;
        if v_entry = 'fence' then
            raise exception using errcode = 'MQ017',
                message = format('a check-back came first: half message %s is rolled back', v_half.message_id);
        end if;
        raise exception using errcode = 'MQ018',
            message = format('the local transaction of half message %s was begun before', v_half.message_id);
    end if;
    select o.op into v_decision from mqpg.op_log o where o.message_id = v_half.message_id and o.stage = 0;
    if found then
        raise exception using errcode = 'MQ018', message = format(
            'half message %s is already %s', v_half.message_id,
            case v_decision when 'c' then 'committed' else 'rolled back' end);
    end if;
end
$$;
comment on function mqpg.local_begin(text) is 'Ledger row in this database: first statement of the local transaction';

-- functions/transact/prepare.sql
-- Stores a half message, invisible until commit(), and returns its handle (protocol T2, step 1). Call it in
-- a transaction of its own and commit that before the local transaction begins. The commit waits for the
-- disk whatever the session's synchronous_commit says. A dedup_id makes it repeatable: one seen within the window
-- stores nothing and returns the first half's handle. In a relay topic its PREPARE goes to the consumers (protocol T4).
-- Locks: none beyond the new row (with a dedup id: waits for a running prepare of the same id).
-- Cost: one row of the commit log. Errors: MQ001, MQ003, MQ004, MQ010, MQ018 (the dedup id is a send's).
create function mqpg.prepare(
    topic text, payload text, producer_group text, key text default null, tag text default null,
    headers jsonb default null, check_after interval default null, delay interval default null,
    dedup_id text default null
) returns text
language plpgsql as $$
declare
    v_to record;
    v_xid xid8;
    v_batch bigint;
    v_nonce uuid := gen_random_uuid();
    v_now timestamptz := clock_timestamp();
    v_first text;
begin
    select t.topic_id, t.kind, t.queues, t.max_payload, t.retention, g.producer_group_id, g.check_after, b.broker_id,
        b.incarnation
    into v_to
    from mqpg.broker b
    cross join mqpg.topic t
    cross join mqpg.producer_group g
    where t.name = prepare.topic and g.name = prepare.producer_group;
    if not found then
        perform mqpg._topic(prepare.topic), mqpg._producer_group(prepare.producer_group);
    end if;
    if prepare.payload is null then
        raise exception using errcode = 'MQ001', message = 'payload must not be null';
    end if;
    if octet_length(prepare.payload) > v_to.max_payload then
        raise exception using errcode = 'MQ010', message = format(
            'payload has %s bytes; topic %L allows %s', octet_length(prepare.payload), prepare.topic,
            v_to.max_payload);
    end if;
    if octet_length(prepare.key) > 512 or octet_length(prepare.tag) > 512 then
        raise exception using errcode = 'MQ001', message = 'key and tag must not be longer than 512 bytes';
    end if;
    if prepare.check_after is not null or prepare.delay is not null or v_to.check_after > v_to.retention then
        perform mqpg._check_half_times(
            mqpg._topic(prepare.topic), coalesce(prepare.check_after, v_to.check_after), prepare.delay);
    end if;
    if current_setting('synchronous_commit') in ('off', 'local') then    -- a call saved, as nearly always
        perform mqpg._force_sync();
    end if;
    v_xid := pg_current_xact_id();    -- before the batch id is drawn
    v_batch := nextval('mqpg.batch_id');
    if prepare.dedup_id is not null then
        v_first := mqpg._prepared_before(v_to.topic_id, prepare.dedup_id, v_batch * 1024);
        if v_first is not null then
            return v_first;
        end if;
    end if;
    insert into mqpg.commit_log (
        batch_id, xid, born_at, topic_id, producer_group_id, incarnation, queue_id, n, kind, nonce, check_at, delay,
        keys, tags, headers, payloads, relay)
    values (
        v_batch, v_xid, v_now, v_to.topic_id, v_to.producer_group_id, v_to.incarnation,
        case
            when prepare.key is null then mqpg._queue_of(v_batch, v_to.queues)
            else mqpg._queue_of(prepare.key, v_to.queues)
        end,
        1, 'h', v_nonce, v_now + coalesce(prepare.check_after, v_to.check_after),
        nullif(prepare.delay, interval '0'),
        case when prepare.key is not null then array[prepare.key] end,
        case when prepare.tag is not null then array[prepare.tag] end,
        case when prepare.headers is not null then array[prepare.headers] end,
        array[prepare.payload::json], case when v_to.kind = 'relay' then true end);
    if v_to.kind = 'relay' then
        perform mqpg._relay_prepares(array[v_batch]);
    end if;
    return mqpg._handle(v_to.broker_id, v_to.incarnation, v_batch * 1024, v_nonce);
end
$$;
comment on function mqpg.prepare(text, text, text, text, text, jsonb, interval, interval, text)
    is 'Store a half message, invisible until commit(); returns its handle';

create function mqpg.prepare(
    topic text, payload json, producer_group text, key text default null, tag text default null,
    headers jsonb default null, check_after interval default null, delay interval default null,
    dedup_id text default null
) returns text
language sql as $$
    select mqpg.prepare(prepare.topic, prepare.payload::text, prepare.producer_group, prepare.key, prepare.tag,
        prepare.headers, prepare.check_after, prepare.delay, prepare.dedup_id)
$$;
comment on function mqpg.prepare(text, json, text, text, text, jsonb, interval, interval, text)
    is 'Store a half message, invisible until commit(); returns its handle';

create function mqpg.prepare(
    topic text, payload jsonb, producer_group text, key text default null, tag text default null,
    headers jsonb default null, check_after interval default null, delay interval default null,
    dedup_id text default null
) returns text
language sql as $$
    select mqpg.prepare(prepare.topic, prepare.payload::text, prepare.producer_group, prepare.key, prepare.tag,
        prepare.headers, prepare.check_after, prepare.delay, prepare.dedup_id)
$$;
comment on function mqpg.prepare(text, jsonb, text, text, text, jsonb, interval, interval, text)
    is 'Store a half message, invisible until commit(); returns its handle';

-- functions/transact/prepare_batch.sql
-- Stores many half messages of one topic; returns their handles in argument order. Each is decided for
-- itself. As prepare() otherwise.
-- Locks: none beyond the new rows. Cost: as send_batch. Errors: MQ001, MQ003, MQ004, MQ010.
create function mqpg.prepare_batch(
    topic text, payloads text [], producer_group text, keys text [] default null, tags text [] default null,
    headers jsonb [] default null, check_after interval default null, delay interval default null
) returns setof text
language plpgsql set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off as $$
declare
    v_topic mqpg.topic := mqpg._topic(prepare_batch.topic);
    v_group mqpg.producer_group := mqpg._producer_group(prepare_batch.producer_group);
    v_nonce uuid := gen_random_uuid();
    v_incarnation int := (select b.incarnation from mqpg.broker b);
    v_prefix text := (select b.broker_id || '.' || b.incarnation || '.' from mqpg.broker b);
    v_suffix text := '.' || replace(v_nonce::text, '-', '');
    v_ids bigint [];
begin
    perform mqpg._check_batch(
        v_topic.max_payload, prepare_batch.payloads, prepare_batch.keys, prepare_batch.tags, prepare_batch.headers);
    perform mqpg._check_half_times(
        v_topic, coalesce(prepare_batch.check_after, v_group.check_after), prepare_batch.delay);
    if cardinality(prepare_batch.payloads) = 0 then
        return;
    end if;
    perform mqpg._force_sync();
    v_ids := mqpg._store(
        v_topic, 'h', prepare_batch.payloads, prepare_batch.keys, prepare_batch.tags, prepare_batch.headers,
        producer_group_id => v_group.producer_group_id, incarnation => v_incarnation, nonce => v_nonce,
        check_at => clock_timestamp() + coalesce(prepare_batch.check_after, v_group.check_after),
        delay => nullif(prepare_batch.delay, interval '0'));
    if v_topic.kind = 'relay' then
        perform mqpg._relay_prepares(array(select distinct u.id / 1024 from unnest(v_ids) as u(id)));
    end if;
    return query
    select v_prefix || u.id || v_suffix    -- as _handle() makes it
    from unnest(v_ids) with ordinality as u(id, o)
    order by u.o;
end
$$;
comment on function mqpg.prepare_batch(text, text [], text, text [], text [], jsonb [], interval, interval)
    is 'Store many half messages; returns their handles in argument order';

create function mqpg.prepare_batch(
    topic text, payloads json [], producer_group text, keys text [] default null, tags text [] default null,
    headers jsonb [] default null, check_after interval default null, delay interval default null
) returns setof text
language sql as $$
    select mqpg.prepare_batch(prepare_batch.topic, prepare_batch.payloads::text [], prepare_batch.producer_group,
        prepare_batch.keys, prepare_batch.tags, prepare_batch.headers, prepare_batch.check_after, prepare_batch.delay)
$$;
comment on function mqpg.prepare_batch(text, json [], text, text [], text [], jsonb [], interval, interval)
    is 'Store many half messages; returns their handles in argument order';

create function mqpg.prepare_batch(
    topic text, payloads jsonb [], producer_group text, keys text [] default null, tags text [] default null,
    headers jsonb [] default null, check_after interval default null, delay interval default null
) returns setof text
language sql as $$
    select mqpg.prepare_batch(prepare_batch.topic, prepare_batch.payloads::text [], prepare_batch.producer_group,
        prepare_batch.keys, prepare_batch.tags, prepare_batch.headers, prepare_batch.check_after, prepare_batch.delay)
$$;
comment on function mqpg.prepare_batch(text, jsonb [], text, text [], text [], jsonb [], interval, interval)
    is 'Store many half messages; returns their handles in argument order';

-- functions/transact/rollback.sql
-- Rolls a half message back (protocol T2, step 3): idempotent, the first decision stands.
-- Locks: the decision's key; waits for another decision under way. Cost: one row read, one written.
-- Errors: MQ001 (null).
create function mqpg.rollback(handle text) returns mqpg.outcome
language sql as $$
    select mqpg._decide(rollback.handle, 'b', 'producer')
$$;
comment on function mqpg.rollback(text) is 'Roll a half message back; the first decision stands';

-- functions/transact/rollback_batch.sql
-- Rolls many half messages back at once; outcomes in argument order.
-- Locks: the decisions' keys in ascending order; waits for others under way. Cost: one row read and one
-- written each. Errors: MQ001 (nulls).
create function mqpg.rollback_batch(handles text []) returns table (handle text, outcome mqpg.outcome)
language sql as $$
    select d.handle, d.outcome from mqpg._decide_batch(rollback_batch.handles, 'b', 'producer') d
$$;
comment on function mqpg.rollback_batch(text []) is 'Roll many half messages back; outcomes in argument order';

-- functions/consume/_attempts.sql
-- The attempts of a message at one subscription since it was redriven last (or first delivered), in order, as dead
-- letters keep them: when it was delivered and to whom, from the cursor's history as far as that goes back; when and
-- why it failed, from the retries; `reason` and `consumer` are those of the last one. An attempt without failed_at is
-- one whose lease ran out.
-- Locks: none. Cost: a few index lookups an attempt; none to speak of where there was one only.
create function mqpg._attempts(subscription_id int, message_id bigint, attempts int, reason text, consumer text)
returns jsonb
language plpgsql as $$
declare
    v_message record;
    v_place record;
    v_since timestamptz := '-infinity';
    v_last jsonb := jsonb_strip_nulls(jsonb_build_object(
        'attempt', _attempts.attempts, 'consumer', _attempts.consumer, 'failed_at', clock_timestamp(),
        'reason', _attempts.reason));
begin
    if _attempts.attempts <= 1 then
        return case _attempts.attempts when 0 then '[]' else jsonb_build_array(v_last) end;
    end if;
    select m.topic_id, m.queue_id, m.kind, m.xid into v_message from mqpg._message(_attempts.message_id) m;
    select p.queue_offset into v_place
    from mqpg._place(_attempts.message_id, v_message.topic_id, v_message.queue_id, v_message.kind, v_message.xid) p;
    return (
        with retry as (
            select d.* from mqpg.delayed d
            where d.first_id between _attempts.message_id - 1023 and _attempts.message_id
                and d.first_id + d.n > _attempts.message_id and d.subscription_id = _attempts.subscription_id
        ),
        since as (
            select coalesce(max(r.written_at) filter (where r.attempt = 1), v_since) as at from retry r
        ),
        lane as (
            select v_message.queue_id::int as queue_id, v_place.queue_offset, 1 as attempt
            union all
            select -1, mqpg._offset_of(mqpg._tick_of(r.xid, r.visible_at), r.topic_id, -1, r.subscription_id,
                _attempts.message_id), r.attempt
            from retry r
        ),
        step as (
            select l.attempt + d.attempt - 1 as attempt,
                jsonb_build_object('delivered_at', d.at, 'consumer', d.consumer, 'failed_at', d.failed_at,
                    'reason', d.reason) as detail
            from lane l
            cross join lateral mqpg._deliveries_of(_attempts.subscription_id, l.queue_id, l.queue_offset) d
            where l.queue_offset is not null and d.at > (select s.at from since s)
            union all
            select r.attempt - 1, jsonb_build_object(
                'failed_at', r.written_at, 'consumer', r.consumer, 'reason', r.reason)
            from retry r where r.attempt > 1 and r.written_at > (select s.at from since s)
            union all
            select _attempts.attempts, v_last
        )
        select jsonb_agg(a.detail order by a.attempt)
        from (
            select s.attempt, jsonb_build_object('attempt', s.attempt) || jsonb_object_agg(f.key, f.value) as detail
            from step s cross join lateral jsonb_each(s.detail) f
            where f.value <> 'null' and s.attempt <= _attempts.attempts
            group by s.attempt
        ) as a);
end
$$;
comment on function mqpg._attempts(int, bigint, int, text, text) is
    'Internal: attempts of a message, for its dead letter';

-- functions/consume/_back_off_until.sql
-- When a message that failed for the attempt-th time is due again: after `delay`, else after the subscription's
-- retry_delay doubled an attempt, up to the setting retry_delay_cap.
-- Locks: none. Cost: one setting read.
create function mqpg._back_off_until(subscription mqpg.subscription, attempt int, delay interval) returns timestamptz
language plpgsql volatile as $$
begin
    return clock_timestamp() + coalesce(_back_off_until.delay, least(
        (_back_off_until.subscription).retry_delay * power(2, least(_back_off_until.attempt - 1, 30)),
        greatest(mqpg._setting('retry_delay_cap')::interval, (_back_off_until.subscription).retry_delay)));
end
$$;
comment on function mqpg._back_off_until(mqpg.subscription, int, interval) is 'Internal: end of a back-off';

-- functions/consume/_bury.sql
-- Writes messages into a subscription's dead letters, with all their attempts. `queue_id` shown is the topic's queue,
-- also where the message died in the retry lane. One that is there already (it was delivered again after a seek) is
-- dead once, with the attempts of both lives.
-- Locks: the new rows. Cost: one row read and one written a message; see _attempts() where there were several.
create function mqpg._bury(
    subscription_id int, message_ids bigint [], deliver_ids bigint [], attempts int [], reason text,
    consumer text default null
) returns void
language sql as $$
    insert into mqpg.dead_letter as d (
        subscription_id, message_id, deliver_id, queue_id, attempts, reason, history)
    select _bury.subscription_id, u.message_id, u.deliver_id,
        coalesce(
            (select l.queue_id from mqpg.commit_log l where l.batch_id = u.message_id / 1024),
            (select h.queue_id from mqpg.held h where h.message_id = u.message_id), -1),
        u.attempts, _bury.reason,
        mqpg._attempts(_bury.subscription_id, u.message_id, u.attempts, _bury.reason, _bury.consumer)
    from unnest(_bury.message_ids, _bury.deliver_ids, _bury.attempts) as u(message_id, deliver_id, attempts)
    on conflict (subscription_id, message_id) do update set
        attempts = excluded.attempts, reason = excluded.reason, died_at = excluded.died_at,
        history = coalesce(d.history, '[]') || coalesce(excluded.history, '[]')
$$;
comment on function mqpg._bury(int, bigint [], bigint [], int [], text, text) is 'Internal: write dead letters';

-- functions/consume/_by_key.sql
-- What a queue of a block_key subscription has before it, in offset order: the messages of its free claims, and fresh
-- ones from `claimed` to `upto`; with the deliveries each had, and whether it is blocked: it waits for its back-off, or
-- a message of its key before it does; `until` is when that one is due.
-- Locks: none. Cost: reads the fresh range, and the keys of claims that were given back or ran out; what waits has its
-- key in the claim.
create function mqpg._by_key(subscription mqpg.subscription, last_version mqpg.cursor, upto bigint)
returns table (queue_offset bigint, deliveries int, key text, fresh boolean, blocked boolean, until timestamptz)
language plpgsql volatile as $$
declare
    v_now timestamptz := clock_timestamp();
    v_fresh record;
begin
    if _by_key.upto > (_by_key.last_version).claimed then
        v_fresh := mqpg._chosen(
            _by_key.subscription, (_by_key.last_version).queue_id, (_by_key.last_version).claimed, _by_key.upto);
    else
        select '{}'::bigint [] as offsets, '{}'::text [] as keys into v_fresh;
    end if;
    return query
    with claim as materialized (
        select c.*::mqpg.claim as claim, c.epoch < 0 and c.lease_until > '-infinity' as known
        from unnest((_by_key.last_version).claims) as c
    ),
    message as (
        select o.o as queue_offset, (c.claim).attempt as deliveries, (c.claim).key as key, false as fresh,
            (c.claim).lease_until as due
        from claim c
        cross join lateral unnest(coalesce(
            (c.claim).picked,
            array(select generate_series((c.claim).from_offset, (c.claim).to_offset - 1)))) as o
        where c.known
        union all
        select m.queue_offset, (c.claim).attempt, m.key, false, '-infinity'
        from claim c
        cross join lateral mqpg._keyed_messages(
            (_by_key.subscription).topic_id, (_by_key.last_version).queue_id, c.claim) as m
        where not c.known
        union all
        select f.o, 0, f.k, true, '-infinity'
        from unnest(v_fresh.offsets, v_fresh.keys) as f(o, k)
    ),
    marked as (
        select m.*, m.due > v_now as waits,
            min(m.queue_offset) filter (where m.due > v_now) over (partition by m.key) as waits_from,
            min(m.due) filter (where m.due > v_now) over (partition by m.key) as waits_until
        from message m
    )
    select k.queue_offset, k.deliveries, k.key, k.fresh,
        k.waits or (k.key is not null and coalesce(k.waits_from < k.queue_offset, false)),
        case when k.waits then k.due else k.waits_until end
    from marked k
    order by k.queue_offset;
end
$$;
comment on function mqpg._by_key(mqpg.subscription, mqpg.cursor, bigint)
    is 'Internal: what a queue has before it, and which of it is blocked by key';

-- functions/consume/_check_issued.sql
-- Refuses a receipt that no delivery of its queue had: MQ007 (another broker's, a changed one, or one whose transaction
-- rolled back). The version of the cursor that issued it tells; where that is dropped, nothing is refused.
-- Locks: none. Cost: one cursor version; not for a receipt whose claim is as it was issued.
create function mqpg._check_issued(
    receipt text, subscription_id int, queue_id int, epoch bigint, from_offset bigint, to_offset bigint
) returns void
language plpgsql as $$
begin
    if exists (
        select from mqpg.cursor c
        where c.subscription_id = _check_issued.subscription_id and c.queue_id = _check_issued.queue_id
            and c.version = _check_issued.epoch / 1048576
            and not exists (
                select from unnest(c.claims) k
                where k.epoch = _check_issued.epoch and k.from_offset = _check_issued.from_offset
                    and k.to_offset = _check_issued.to_offset)
    ) then
        raise exception using errcode = 'MQ007', message = format(
            'receipt %L was not issued here, or by a transaction that rolled back', _check_issued.receipt);
    end if;
end
$$;
comment on function mqpg._check_issued(text, int, int, bigint, bigint, bigint)
    is 'Internal: refuse a receipt that was not issued so';

-- functions/consume/_check_letters.sql
-- Checks what chooses dead letters: message_ids flat and without null (MQ001), a filter as a subscription's (MQ020).
-- Locks: none. Cost: none to speak of.
create function mqpg._check_letters(message_ids bigint [], filter jsonpath) returns void
language plpgsql immutable as $$
begin
    if array_ndims(_check_letters.message_ids) > 1 or array_position(_check_letters.message_ids, null) is not null then
        raise exception using errcode = 'MQ001',
            message = 'message_ids must be a one-dimensional array without null; leave it out for all';
    end if;
    perform mqpg._check_filter(_check_letters.filter, null);
end
$$;
comment on function mqpg._check_letters(bigint [], jsonpath) is 'Internal: refuse a faulty choice of dead letters';

-- functions/consume/_check_receive.sql
-- Checks the arguments of receive (MQ001).
-- Locks: none. Cost: none to speak of.
create function mqpg._check_receive(
    subscription mqpg.subscription, queues int, max_messages int, lease interval, consumer text, queue_id int
) returns void
language plpgsql immutable as $$
begin
    if _check_receive.max_messages is null or _check_receive.max_messages not between 1 and 10000 then
        perform mqpg._check_range('max_messages', _check_receive.max_messages, 1, 10000);
    end if;
    if _check_receive.lease is null or _check_receive.lease not between interval '10 milliseconds'
        and interval '100 years' then
        perform mqpg._interval('lease', _check_receive.lease, '10 milliseconds');
    end if;
    if _check_receive.consumer is null and (_check_receive.subscription).mode in ('pinned', 'broadcast') then
        raise exception using errcode = 'MQ001', message = format(
            'consumer must be given where the mode is %s', (_check_receive.subscription).mode);
    end if;
    if _check_receive.consumer is not null then
        perform mqpg._check_name('consumer', _check_receive.consumer);
    end if;
    if _check_receive.queue_id is not null then
        perform mqpg._check_range('queue_id', _check_receive.queue_id, -1, _check_receive.queues - 1);
    end if;
end
$$;
comment on function mqpg._check_receive(mqpg.subscription, int, int, interval, text, int)
    is 'Internal: refuse invalid arguments of receive';

-- functions/consume/_chosen.sql
-- The offsets in from_offset .. to_offset - 1 of a queue whose messages the subscription's filter and tags choose,
-- with their keys, as arrays in offset order. The whole range is evaluated in one go; only where that fails is each
-- message looked at by itself.
-- (offset 0: the planner would compute it once for each use of it.)
-- Locks: none. Cost: reads the range's bodies; parses those with a fitting tag where there is a filter.
-- Errors: MQ014 (missing body), 40001.
create function mqpg._chosen(
    subscription mqpg.subscription, queue_id int, from_offset bigint, to_offset bigint,
    out offsets bigint [], out keys text []
)
language plpgsql as $$
declare
    v_tags text [] := (_chosen.subscription).tags;
    v_filter jsonpath := (_chosen.subscription).filter;
    v_runs record;
    v_all bigint;
begin
    v_runs := mqpg._runs((_chosen.subscription).topic_id, _chosen.queue_id, 0, _chosen.from_offset, _chosen.to_offset);
    begin
        select array_agg(d.queue_offset order by d.queue_offset) filter (where m.chosen),
            array_agg(d.key order by d.queue_offset) filter (where m.chosen), count(*)
        into _chosen.offsets, _chosen.keys, v_all
        from mqpg._deliveries_held(
            null, null, 1, null, null, null, v_runs.ids, v_runs.bodies, v_runs.offsets, v_runs.lengths,
            v_runs.attempts, v_runs.lowest, v_runs.highest) as d
        cross join lateral (select case
            when v_tags is not null and d.tag = any(v_tags) is not true then false
            when v_filter is null then true
            else jsonb_path_match(d.payload::jsonb, v_filter,
                jsonb_build_object('headers', d.headers, 'key', d.key, 'tag', d.tag), true)
        end as chosen offset 0) as m;
    exception when data_exception or feature_not_supported or program_limit_exceeded or undefined_object then
        select array_agg(d.queue_offset order by d.queue_offset) filter (where m.chosen),
            array_agg(d.key order by d.queue_offset) filter (where m.chosen), count(*)
        into _chosen.offsets, _chosen.keys, v_all
        from mqpg._deliveries_held(
            null, null, 1, null, null, null, v_runs.ids, v_runs.bodies, v_runs.offsets, v_runs.lengths,
            v_runs.attempts, v_runs.lowest, v_runs.highest) as d
        cross join lateral (select case
            when v_tags is not null and d.tag = any(v_tags) is not true then false
            else mqpg._matches(v_filter, d.key, d.tag, d.headers, d.payload)
        end as chosen offset 0) as m;
    end;
    if v_all <> _chosen.to_offset - _chosen.from_offset then
        perform mqpg._missing_body(
            (select t.name from mqpg.topic t where t.topic_id = (_chosen.subscription).topic_id), _chosen.queue_id,
            _chosen.from_offset, _chosen.to_offset, v_all);
    end if;
    _chosen.offsets := coalesce(_chosen.offsets, '{}');
    _chosen.keys := coalesce(_chosen.keys, '{}');
end
$$;
comment on function mqpg._chosen(mqpg.subscription, int, bigint, bigint)
    is 'Internal: offsets that a subscription''s filter chooses';

-- functions/consume/_claim.sql
-- Hands out the next range of a queue and writes the cursor: what a lease that ran out left behind, else what
-- was never handed out, less what the subscription's filter does not choose. Messages whose attempts are used up
-- become dead letters on the way; the last attempt of a message is delivered alone. Null when nothing is to be had.
-- `tail` is the queue's next offset as the caller saw it a moment ago, if it did.
-- Locks: none (the caller holds the queue's). Cost: one cursor version; where attempts matter a look at
-- the range's runs; with a filter _pick.
create function mqpg._claim(
    subscription mqpg.subscription, last_version mqpg.cursor, max_messages int, lease interval, consumer text,
    tail bigint default null
) returns mqpg.claim
language plpgsql as $$
declare
    v_cursor mqpg.cursor := _claim.last_version;
    v_lane int := case v_cursor.queue_id when -1 then v_cursor.subscription_id else 0 end;
    v_owner text := case (_claim.subscription).mode when 'pinned' then _claim.consumer end;
    v_nth int;
    v_old mqpg.claim;
    v_claim mqpg.claim;
    v_left mqpg.claim;
    v_rest mqpg.claim [];
    v_tail bigint;
    v_upto bigint;      -- what is handed out, or filtered, ends here
    v_end bigint;
    v_pick record;
    v_action "char";
    v_version bigint;
begin
    loop
        if v_cursor.version is null or v_cursor.owner <> _claim.consumer then
            return null;
        end if;
        if v_cursor.claims = '{}' then
            v_nth := 0;
        elsif (_claim.subscription).on_failure = 'block_key' and v_lane = 0 then
            return mqpg._claim_by_key(_claim.subscription, v_cursor, _claim.max_messages, _claim.lease, _claim.consumer);
        else
            v_nth := mqpg._next_claim(_claim.subscription, v_cursor.claims);
        end if;
        if v_nth < 0 then
            return null;
        elsif v_nth = 0 then
            v_action := 'r';
            v_old := null;
            v_rest := v_cursor.claims;
            v_tail := _claim.tail;
            if v_tail is null or v_tail <= v_cursor.claimed then
                v_tail := mqpg._tail((_claim.subscription).topic_id, v_cursor.queue_id, v_lane);
                if v_tail <= v_cursor.claimed then
                    return null;
                end if;
            end if;
            v_claim := row(
                null, v_cursor.claimed, least(v_cursor.claimed + _claim.max_messages, v_tail), 1,
                clock_timestamp() + _claim.lease, _claim.consumer, null, null, null)::mqpg.claim;
            v_upto := v_claim.to_offset;
            if ((_claim.subscription).filter is not null or (_claim.subscription).tags is not null) and v_lane = 0 then
                v_pick := mqpg._pick(
                    _claim.subscription, v_cursor.queue_id, v_cursor.claimed, v_tail, _claim.max_messages);
                if v_pick.picked = '{}' then
                    perform mqpg._write_cursor(v_cursor, 'f', null, v_pick.upto, v_owner, v_rest);
                    return null;
                end if;
                v_upto := v_pick.upto;
                v_claim.to_offset := v_upto;
                v_claim.picked := v_pick.picked;
                v_claim := mqpg._settle_offsets(v_claim, '{}');
            end if;
        else
            v_action := 't';
            v_old := v_cursor.claims[v_nth];
            v_rest := v_cursor.claims[:v_nth - 1] || v_cursor.claims[v_nth + 1:];
            v_upto := v_cursor.claimed;
            v_claim := v_old;
            v_claim.attempt := v_old.attempt + 1;
            v_claim.lease_until := clock_timestamp() + _claim.lease;
            v_claim.consumer := _claim.consumer;
            v_claim.key := null;
            v_claim.to_offset := least(v_old.to_offset, case
                when v_old.picked is null then v_old.from_offset + _claim.max_messages
                else v_old.picked[_claim.max_messages] + 1
            end);
        end if;
        -- the xid tells a receipt of a transaction that rolled back from the next one's
        v_claim.epoch := (v_cursor.version + 1) * 1048576 + pg_current_xact_id()::text::bigint % 1048576;
        if v_lane <> 0 or v_claim.attempt >= (_claim.subscription).max_attempts then
            v_end := mqpg._limit_attempts(_claim.subscription, v_cursor.queue_id, v_lane, v_claim);
            if v_nth = 0 and abs(v_end) < v_claim.to_offset then
                v_upto := abs(v_end);
            end if;
            v_claim.to_offset := v_end;
        end if;
        -- what is left of the old range is free, and nobody holds a receipt for it
        if v_old.to_offset > abs(v_claim.to_offset) then
            v_left := mqpg._free_claim(v_old, v_cursor, v_old.attempt);
            v_left.from_offset := abs(v_claim.to_offset);
            v_left := mqpg._settle_offsets(v_left, '{}');
            if v_left.epoch is not null then
                v_rest := v_left || v_rest;
            end if;
        end if;
        if v_claim.to_offset > 0 then
            if v_claim.settled is not null or v_claim.picked is not null then
                v_claim := mqpg._settle_offsets(v_claim, '{}');
            end if;
            v_version := mqpg._write_cursor(v_cursor, v_action, v_claim.epoch, v_upto, v_owner, v_claim || v_rest);
            return v_claim;
        end if;
        -- the first message was buried: note it and look again
        perform mqpg._write_cursor(v_cursor, 'd', v_old.epoch, v_upto, v_owner, v_rest);
        v_cursor := mqpg._cursor(v_cursor.subscription_id, v_cursor.queue_id);
    end loop;
end
$$;
comment on function mqpg._claim(mqpg.subscription, mqpg.cursor, int, interval, text, bigint)
    is 'Internal: hand out the next range of a queue';

-- functions/consume/_claim_by_key.sql
-- As _claim, for a queue of a block_key subscription that has claims: messages whose key has a failed one before them
-- stay back, in order, and all others go on. One claim has messages of one attempt count; a message that cannot be in
-- it holds back what follows of its key. When about 4096 messages are held back in a queue nothing fresh is handed
-- out until a key is free again.
-- Locks: none (the caller holds the queue's). Cost: one cursor version, and what _by_key reads.
create function mqpg._claim_by_key(
    subscription mqpg.subscription, last_version mqpg.cursor, max_messages int, lease interval, consumer text
) returns mqpg.claim
language plpgsql as $$
declare
    v_cursor mqpg.cursor := _claim_by_key.last_version;     -- as it is going to be
    v_max int := (_claim_by_key.subscription).max_attempts;
    v_tail bigint;
    v_step int := _claim_by_key.max_messages;
    v_from bigint;
    v_upto bigint;
    v_claim mqpg.claim;
    v_message record;
    v_offsets bigint [];    -- what stays behind: offset, deliveries, key where it is blocked, until
    v_deliveries int [];
    v_keys text [];
    v_untils timestamptz [];
    v_skipped text [];      -- keys of messages that could be had, but not in this claim
    v_action "char" := 'f';
begin
    if mqpg._next_claim(_claim_by_key.subscription, v_cursor.claims) < 0 then
        return null;
    end if;
    v_tail := mqpg._tail((_claim_by_key.subscription).topic_id, v_cursor.queue_id, 0);
    loop
        v_from := v_cursor.claimed;
        v_upto := case when mqpg._waiting(v_cursor.claims) < 4096 then least(v_tail, v_from + v_step) else v_from end;
        v_claim := row(
            null, null, null, null, clock_timestamp() + _claim_by_key.lease, _claim_by_key.consumer, null, '{}', null);
        v_offsets := '{}';
        v_deliveries := '{}';
        v_keys := '{}';
        v_untils := '{}';
        v_skipped := '{}';
        for v_message in select b.* from mqpg._by_key(_claim_by_key.subscription, v_cursor, v_upto) b loop
            if not v_message.blocked and v_message.key = any(v_skipped) is not true then
                if v_claim.attempt is null and v_message.deliveries >= v_max then
                    perform mqpg._bury_offset(
                        _claim_by_key.subscription, v_cursor.queue_id, v_message.queue_offset,
                        'lease ran out at the last attempt');
                    v_action := 'd';
                    continue;
                end if;
                v_claim.attempt := coalesce(v_claim.attempt, v_message.deliveries + 1);
                if v_message.deliveries + 1 = v_claim.attempt
                    and cardinality(v_claim.picked)
                        < (case when v_claim.attempt < v_max then _claim_by_key.max_messages else 1 end)
                    and v_message.queue_offset < coalesce(v_claim.picked[1], v_message.queue_offset) + 10000
                then
                    v_claim.picked := v_claim.picked || v_message.queue_offset;
                    continue;
                end if;
            end if;
            if v_message.fresh and not v_message.blocked then
                v_upto := v_message.queue_offset;
                exit;
            end if;
            v_offsets := v_offsets || v_message.queue_offset;
            v_deliveries := v_deliveries || v_message.deliveries;
            v_keys := array_append(v_keys, case when v_message.blocked then v_message.key end);
            v_untils := v_untils || case when v_message.blocked then v_message.until else '-infinity' end;
            if not v_message.blocked and v_message.key is not null then
                v_skipped := v_skipped || v_message.key;
            end if;
        end loop;
        if v_action = 'f' and exists (select from unnest(v_cursor.claims) c where c.epoch > 0) then
            v_action := 'd';    -- what ran out is not its holder's any more
        end if;
        v_cursor.claimed := v_upto;
        v_cursor.claims := mqpg._pack_claims(v_cursor.version, v_offsets, v_deliveries, v_keys, v_untils);
        exit when v_claim.attempt is not null or v_upto >= v_tail or v_upto = v_from;
        v_step := greatest(v_step, least(v_step * 2, 1024));
    end loop;
    if v_claim.attempt is not null then
        v_claim.epoch := (v_cursor.version + 1) * 1048576 + pg_current_xact_id()::text::bigint % 1048576;
        v_claim.from_offset := v_claim.picked[1];
        v_claim.to_offset := v_claim.picked[cardinality(v_claim.picked)] + 1;
        v_claim := mqpg._settle_offsets(v_claim, '{}');
        perform mqpg._write_cursor(
            v_cursor, 't', v_claim.epoch, v_cursor.claimed, v_cursor.owner, v_claim || v_cursor.claims);
        return v_claim;
    end if;
    if v_action = 'd' or v_cursor.claimed > (_claim_by_key.last_version).claimed then
        perform mqpg._write_cursor(v_cursor, v_action, null, v_cursor.claimed, v_cursor.owner, v_cursor.claims);
    end if;
    return null;
end
$$;
comment on function mqpg._claim_by_key(mqpg.subscription, mqpg.cursor, int, interval, text)
    is 'Internal: hand out the next messages of a queue whose keys are not blocked';

-- functions/consume/_claimed_messages.sql
-- The messages of a claim: offset, id, where the body lies, and the attempt that this delivery of it is.
-- Locks: none. Cost: one look at each run.
create function mqpg._claimed_messages(topic_id int, queue_id int, subscription_id int, claim mqpg.claim)
returns table (queue_offset bigint, message_id bigint, deliver_id bigint, attempt int)
language sql stable as $$
    select c.base_offset + u.start + i, u.first_id + i, coalesce(u.deliver_id, u.first_id) + i,
        coalesce(u.attempt, 1) + _claimed_messages.claim.attempt - 1
    from mqpg.consume_queue c,
        unnest(c.first_ids, c.starts, c.deliver_ids, c.attempts)
            with ordinality as u(first_id, start, deliver_id, attempt, nth),
        generate_series(0, coalesce(c.starts[u.nth + 1], c.n) - u.start - 1) as i
    where c.topic_id = _claimed_messages.topic_id and c.queue_id = _claimed_messages.queue_id
        and c.subscription_id = _claimed_messages.subscription_id
        and c.base_offset >= (
            select b.base_offset from mqpg.consume_queue b
            where b.topic_id = _claimed_messages.topic_id and b.queue_id = _claimed_messages.queue_id
                and b.subscription_id = _claimed_messages.subscription_id
                and b.base_offset <= _claimed_messages.claim.from_offset
            order by b.base_offset desc limit 1)
        and c.base_offset < _claimed_messages.claim.to_offset
        and c.base_offset + u.start + i >= _claimed_messages.claim.from_offset
        and c.base_offset + u.start + i < _claimed_messages.claim.to_offset
        and (_claimed_messages.claim.settled is null
            or c.base_offset + u.start + i not in (select s from unnest(_claimed_messages.claim.settled) s))
        and (_claimed_messages.claim.picked is null
            or c.base_offset + u.start + i in (select p from unnest(_claimed_messages.claim.picked) p))
    order by 1
$$;
comment on function mqpg._claimed_messages(int, int, int, mqpg.claim) is 'Internal: messages of a claim';

-- functions/consume/_bury_offset.sql
-- Makes the message at one offset of a topic's queue a dead letter, its attempts being used up.
-- Locks: the new row. Cost: one row.
create function mqpg._bury_offset(subscription mqpg.subscription, queue_id int, queue_offset bigint, reason text)
returns void
language sql as $$
    select mqpg._bury(
        (_bury_offset.subscription).subscription_id, array[m.message_id], array[m.deliver_id],
        array[(_bury_offset.subscription).max_attempts], _bury_offset.reason)
    from mqpg._claimed_messages(
        (_bury_offset.subscription).topic_id, _bury_offset.queue_id, 0,
        row(null, _bury_offset.queue_offset, _bury_offset.queue_offset + 1, 1, null, null, null, null, null)::mqpg.claim
    ) as m
$$;
comment on function mqpg._bury_offset(mqpg.subscription, int, bigint, text)
    is 'Internal: bury the message at an offset';

-- functions/consume/_deliveries.sql
-- The messages of runs (see _runs), in the order of the runs. Each run's record batch is read once, sliced and
-- unnested. Fewer rows than offsets mean a missing body: callers check the count. Two ways, and callers that
-- find ids between lowest and highest in held take the slower one: where a segment is gone it reads the
-- survivors there. Meant to be inlined: arguments must be variables. Runs come in order out of unnest, and a
-- lateral subquery behind OFFSET 0 can only be joined by a nested loop, so nothing needs to be sorted.
-- Locks: none. Cost: one index lookup and one detoasting a run.
create function mqpg._deliveries(
    topic text, queue_id int, attempt int, receipt text, settled bigint [], picked bigint [], ids bigint [],
    bodies bigint [], offsets bigint [], lengths int [], attempts int [], lowest bigint, highest bigint
) returns setof mqpg.delivery
language sql stable as $$
    select run.id + m.o - 1, _deliveries.topic, _deliveries.queue_id, run.first_offset + m.o - 1,
        m.key, m.tag, m.headers, m.payload, m.born_at,
        coalesce(run.attempt, 1) + _deliveries.attempt - 1, _deliveries.receipt
    from unnest(_deliveries.ids, _deliveries.bodies, _deliveries.offsets, _deliveries.lengths, _deliveries.attempts)
        as run(id, body, first_offset, n, attempt)
    cross join lateral (
        select u.key, u.tag, u.headers, u.payload, b.born_at, u.o
        from mqpg.commit_log b,
            unnest(
                b.payloads[run.body % 1024 + 1:run.body % 1024 + run.n],
                b.keys[run.body % 1024 + 1:run.body % 1024 + run.n],
                b.tags[run.body % 1024 + 1:run.body % 1024 + run.n],
                b.headers[run.body % 1024 + 1:run.body % 1024 + run.n]
            ) with ordinality as u(payload, key, tag, headers, o)
        where b.batch_id = run.body / 1024 and b.batch_id between _deliveries.lowest and _deliveries.highest
        offset 0
    ) as m
    where (_deliveries.settled is null
            or run.first_offset + m.o - 1 not in (select s from unnest(_deliveries.settled) s))
        and (_deliveries.picked is null
            or run.first_offset + m.o - 1 in (select p from unnest(_deliveries.picked) p))
$$;
comment on function mqpg._deliveries(
    text, int, int, text, bigint [], bigint [], bigint [], bigint [], bigint [], int [], int [], bigint, bigint
) is 'Internal: messages of runs';

-- functions/consume/_deliveries_held.sql
-- As _deliveries, and where a segment is gone the survivors in held are read.
-- Locks: none. Cost: one index lookup and one detoasting a run, and a look into held.
create function mqpg._deliveries_held(
    topic text, queue_id int, attempt int, receipt text, settled bigint [], picked bigint [], ids bigint [],
    bodies bigint [], offsets bigint [], lengths int [], attempts int [], lowest bigint, highest bigint
) returns setof mqpg.delivery
language sql stable as $$
    select run.id + m.o - 1, _deliveries_held.topic, _deliveries_held.queue_id, run.first_offset + m.o - 1,
        m.key, m.tag, m.headers, m.payload, m.born_at,
        coalesce(run.attempt, 1) + _deliveries_held.attempt - 1, _deliveries_held.receipt
    from unnest(
        _deliveries_held.ids, _deliveries_held.bodies, _deliveries_held.offsets, _deliveries_held.lengths,
        _deliveries_held.attempts) as run(id, body, first_offset, n, attempt)
    cross join lateral (
        select u.key, u.tag, u.headers, u.payload, b.born_at, u.o
        from mqpg.commit_log b,
            unnest(
                b.payloads[run.body % 1024 + 1:run.body % 1024 + run.n],
                b.keys[run.body % 1024 + 1:run.body % 1024 + run.n],
                b.tags[run.body % 1024 + 1:run.body % 1024 + run.n],
                b.headers[run.body % 1024 + 1:run.body % 1024 + run.n]
            ) with ordinality as u(payload, key, tag, headers, o)
        where b.batch_id = run.body / 1024
            and b.batch_id between _deliveries_held.lowest and _deliveries_held.highest
        union all
        select h.key, h.tag, h.headers, h.payload, h.born_at, h.message_id - run.body + 1
        from mqpg.held h
        where h.message_id >= run.body and h.message_id < run.body + run.n
            and not exists (
                select from mqpg.commit_log b
                where b.batch_id = run.body / 1024
                    and b.batch_id between _deliveries_held.lowest and _deliveries_held.highest)
    ) as m
    where (_deliveries_held.settled is null
            or run.first_offset + m.o - 1 not in (select s from unnest(_deliveries_held.settled) s))
        and (_deliveries_held.picked is null
            or run.first_offset + m.o - 1 in (select p from unnest(_deliveries_held.picked) p))
    order by run.first_offset + m.o
$$;
comment on function mqpg._deliveries_held(
    text, int, int, text, bigint [], bigint [], bigint [], bigint [], bigint [], int [], int [], bigint, bigint
) is 'Internal: messages of runs, those of dropped segments out of held';

-- functions/consume/_died_at.sql
-- Where a page of dead letters ended: when the letter died, one that was redriven or discarded since, too, and whose it
-- was (of a broadcast group the member, else ''). MQ001 where there was none, or where several members had one and
-- `consumer` does not say which. Nulls for a null message.
-- Locks: none. Cost: a few index lookups.
create function mqpg._died_at(
    subscription_id int, message_id bigint, consumer text, out died_at timestamptz, out member text
)
language plpgsql stable as $$
declare
    v_members bigint;
begin
    if _died_at.message_id is null then
        return;
    end if;
    select max(l.died_at), max(s.member), count(distinct s.member)
    into _died_at.died_at, _died_at.member, v_members
    from (
        select d.subscription_id, d.died_at from mqpg.dead_letter d where d.message_id = _died_at.message_id
        union all
        select f.subscription_id, f.died_at from mqpg.former_letter f where f.message_id = _died_at.message_id
    ) as l
    join mqpg.subscription s on s.subscription_id = l.subscription_id
    where _died_at.subscription_id in (s.subscription_id, s.member_of)
        and (_died_at.consumer is null or s.member = _died_at.consumer);
    if v_members = 0 then
        raise exception using errcode = 'MQ001', message = format(
            'after_id %s names no dead letter of this subscription', _died_at.message_id)
            || coalesce(format(', consumer %L', _died_at.consumer), '');
    elsif v_members > 1 then
        raise exception using errcode = 'MQ001', message = format(
            'after_id %s names dead letters of %s members: after_consumer must say whose', _died_at.message_id,
            v_members),
            hint = 'Pages go on behind message_id and consumer of the last row.';
    end if;
end
$$;
comment on function mqpg._died_at(int, bigint, text) is 'Internal: when a dead letter died, and whose it was';

-- functions/consume/_expire.sql
-- Passes over what expired in a queue for a subscription: fresh messages that became visible longer ago than the
-- topic's message_ttl. They count as consumed, or become dead letters where the topic says so, and the table jump has
-- their offsets. Messages that were handed out once do not expire. Returns the cursor as it is then.
-- Locks: none (the caller holds the queue's). Cost: two index lookups where the next message has not expired; else
-- see _offset_at(), one cursor version, and one row a dead letter.
create function mqpg._expire(topic mqpg.topic, subscription mqpg.subscription, last_version mqpg.cursor)
returns mqpg.cursor
language plpgsql as $$
declare
    v_cursor mqpg.cursor := _expire.last_version;
    v_before timestamptz := clock_timestamp() - (_expire.topic).message_ttl;
    v_tick_id bigint;
    v_to bigint;
    v_chosen bigint [];
begin
    select c.tick_id into v_tick_id from mqpg.consume_queue c
    where c.topic_id = (_expire.topic).topic_id and c.queue_id = v_cursor.queue_id and c.subscription_id = 0
        and c.base_offset <= v_cursor.claimed
    order by c.base_offset desc limit 1;
    if v_tick_id is null or not exists (
        select from mqpg.tick t where t.tick_id = v_tick_id and t.at < v_before) then
        return v_cursor;
    end if;
    v_to := mqpg._offset_at((_expire.topic).topic_id, v_cursor.queue_id, 0, v_before);
    if v_to <= v_cursor.claimed then
        return v_cursor;
    end if;
    if (_expire.topic).on_expired = 'dead_letter' then
        -- what the filter does not choose was never the group's
        if (_expire.subscription).filter is not null or (_expire.subscription).tags is not null then
            v_chosen := (mqpg._chosen(_expire.subscription, v_cursor.queue_id, v_cursor.claimed, v_to)).offsets;
        end if;
        perform mqpg._bury(
            v_cursor.subscription_id, array_agg(m.message_id), array_agg(m.deliver_id),
            array_agg(0), 'expired')
        from mqpg._claimed_messages((_expire.topic).topic_id, v_cursor.queue_id, 0,
            row(null, v_cursor.claimed, v_to, 1, null, null, null, v_chosen, null)::mqpg.claim) m;
    end if;
    perform mqpg._write_cursor(v_cursor, 'x', null, v_to, v_cursor.owner, v_cursor.claims);
    perform mqpg._note_jump(_expire.subscription, v_cursor.queue_id, v_cursor.claimed, v_to, 'expired');
    return mqpg._cursor(v_cursor.subscription_id, v_cursor.queue_id);
end
$$;
comment on function mqpg._expire(mqpg.topic, mqpg.subscription, mqpg.cursor) is 'Internal: pass over what expired';

-- functions/consume/_give_up.sql
-- Sends one message to the retry lane or, its attempts being used up, to the dead letters.
-- Locks: none beyond the new row. Cost: one row.
create function mqpg._give_up(
    subscription mqpg.subscription, message_id bigint, deliver_id bigint, attempt int, reason text, delay interval,
    consumer text default null
) returns void
language plpgsql as $$
begin
    if _give_up.attempt >= (_give_up.subscription).max_attempts then
        perform mqpg._bury(
            (_give_up.subscription).subscription_id, array[_give_up.message_id], array[_give_up.deliver_id],
            array[_give_up.attempt], _give_up.reason, _give_up.consumer);
        return;
    end if;
    insert into mqpg.delayed (
        visible_at, xid, first_id, deliver_id, n, written_at, topic_id, subscription_id, queue_id, attempt, reason,
        consumer)
    values (
        mqpg._back_off_until(_give_up.subscription, _give_up.attempt, _give_up.delay), pg_current_xact_id(),
        _give_up.message_id, nullif(_give_up.deliver_id, _give_up.message_id), 1, clock_timestamp(),
        (_give_up.subscription).topic_id, (_give_up.subscription).subscription_id, -1, _give_up.attempt + 1,
        _give_up.reason, _give_up.consumer);
end
$$;
comment on function mqpg._give_up(mqpg.subscription, bigint, bigint, int, text, interval, text)
    is 'Internal: retry or bury one message';

-- functions/consume/_hold_back.sql
-- A nack under block_key or block_queue: a failed message stays at its place until its back-off is over, and what must
-- not overtake it is given back with it, its attempt not counted: all that is behind it in the delivery (block_queue),
-- or what has its key there (block_key). So only the first failed message of the queue, or of a key, counts an attempt.
-- One whose attempts are used up becomes a dead letter and holds nothing back.
-- Returns what is left of the claim, null where nothing is, what waits, and the offsets whose attempt counted.
-- Locks: none. Cost: a look at each run of the delivery; block_key: and at its keys. One row a dead letter.
create function mqpg._hold_back(
    subscription mqpg.subscription, last_version mqpg.cursor, claim mqpg.claim, message_ids bigint [], reason text,
    delay interval, out left_over mqpg.claim, out waiting mqpg.claim [],
    out failed bigint []
)
language plpgsql as $$
declare
    v_by_key boolean := (_hold_back.subscription).on_failure = 'block_key';
    v_attempt int := (_hold_back.claim).attempt;
    v_until timestamptz := mqpg._back_off_until(_hold_back.subscription, v_attempt, _hold_back.delay);
    v_message record;
    v_behind boolean;
    v_gone bigint [] := '{}';
    v_offsets bigint [] := '{}';
    v_deliveries int [] := '{}';
    v_keys text [] := '{}';
    v_untils timestamptz [] := '{}';
begin
    failed := '{}';
    for v_message in
        select k.* from mqpg._keyed_messages(
            (_hold_back.subscription).topic_id, (_hold_back.last_version).queue_id, _hold_back.claim) k
    loop
        v_behind := case when v_by_key then coalesce(v_message.key = any(v_keys), false) else v_offsets <> '{}' end;
        continue when not v_behind and v_message.message_id <> all(_hold_back.message_ids);
        v_gone := v_gone || v_message.queue_offset;
        if not v_behind and v_attempt >= (_hold_back.subscription).max_attempts then
            perform mqpg._bury(
                (_hold_back.subscription).subscription_id, array[v_message.message_id], array[v_message.deliver_id],
                array[v_attempt], _hold_back.reason, (_hold_back.claim).consumer);
            continue;
        end if;
        if not v_behind then
            failed := failed || v_message.queue_offset;
        end if;
        v_offsets := v_offsets || v_message.queue_offset;
        v_deliveries := v_deliveries || case when v_behind then v_attempt - 1 else v_attempt end;
        v_keys := array_append(v_keys, case when v_by_key then v_message.key end);
        v_untils := v_untils || case when v_behind and not v_by_key then '-infinity' else v_until end;
    end loop;
    left_over := mqpg._settle_offsets(_hold_back.claim, v_gone);
    waiting := mqpg._pack_claims((_hold_back.last_version).version, v_offsets, v_deliveries, v_keys, v_untils);
end
$$;
comment on function mqpg._hold_back(mqpg.subscription, mqpg.cursor, mqpg.claim, bigint [], text, interval)
    is 'Internal: keep failed messages at their place';

-- functions/consume/_hold_subscription.sql
-- Keeps the subscription of a receipt from ending before the transaction does, for who writes what goes with it.
-- Locks: its row, FOR KEY SHARE, waiting up to the setting lock_timeout. Cost: one row.
-- Errors: MQ007 (it ended meanwhile), 55P03, 40001.
create function mqpg._hold_subscription(receipt text, subscription_id int) returns void
language plpgsql as $$
declare
    v_timeout text;
begin
    v_timeout := mqpg._wait_as_set();
    perform from mqpg.subscription s where s.subscription_id = _hold_subscription.subscription_id for key share;
    if not found then
        raise exception using errcode = 'MQ007', message = format(
            'receipt %L belongs to no subscription here', _hold_subscription.receipt);
    end if;
    perform set_config('lock_timeout', v_timeout, true);
end
$$;
comment on function mqpg._hold_subscription(text, int) is 'Internal: let a receipt''s subscription not end meanwhile';

-- functions/consume/_keyed_messages.sql
-- As _claimed_messages of a topic's own queue, with each message's key.
-- Locks: none. Cost: one look at each run, and one at each message's record batch.
create function mqpg._keyed_messages(topic_id int, queue_id int, claim mqpg.claim)
returns table (queue_offset bigint, message_id bigint, deliver_id bigint, attempt int, key text)
language sql stable as $$
    select m.queue_offset, m.message_id, m.deliver_id, m.attempt, k.key
    from mqpg._claimed_messages(
        _keyed_messages.topic_id, _keyed_messages.queue_id, 0, _keyed_messages.claim) as m
    left join lateral (
        select l.keys[m.deliver_id % 1024 + 1] as key
        from mqpg.commit_log l where l.batch_id = m.deliver_id / 1024
        union all
        select h.key from mqpg.held h where h.message_id = m.deliver_id
        limit 1
    ) as k on true
    order by m.queue_offset
$$;
comment on function mqpg._keyed_messages(int, int, mqpg.claim) is 'Internal: messages of a claim with their keys';

-- functions/consume/_limit_attempts.sql
-- Where a range must end so that every message in it has attempts left after this one, or is alone with
-- its last one. A first message without any attempt left is buried, and its end comes back negative.
-- Locks: none. Cost: one look at each run of the range.
create function mqpg._limit_attempts(subscription mqpg.subscription, queue_id int, lane int, claim mqpg.claim)
returns bigint
language plpgsql as $$
declare
    v_max int := (_limit_attempts.subscription).max_attempts;
    v_first boolean := true;
    v_message record;
begin
    for v_message in
        select m.* from mqpg._claimed_messages(
            (_limit_attempts.subscription).topic_id, _limit_attempts.queue_id, _limit_attempts.lane,
            _limit_attempts.claim) m
    loop
        if v_first and v_message.attempt > v_max then
            perform mqpg._bury(
                (_limit_attempts.subscription).subscription_id, array[v_message.message_id],
                array[v_message.deliver_id], array[v_max], 'lease ran out at the last attempt');
            return -(v_message.queue_offset + 1);
        elsif v_first and v_message.attempt = v_max then
            return v_message.queue_offset + 1;
        elsif v_message.attempt >= v_max then
            return v_message.queue_offset;
        end if;
        v_first := false;
    end loop;
    return (_limit_attempts.claim).to_offset;
end
$$;
comment on function mqpg._limit_attempts(mqpg.subscription, int, int, mqpg.claim)
    is 'Internal: end of a range in which attempts are left';

-- functions/consume/_matches.sql
-- Whether a subscription's filter chooses a message; what the filter or the payload makes of it at run time is no
-- error: JSON that jsonb refuses (\u0000, a number out of its range, too deep) is no match, nor is a comparison of
-- times that needs a time zone.
-- Locks: none. Cost: parses the payload; a subtransaction.
create function mqpg._matches(filter jsonpath, key text, tag text, headers jsonb, payload json) returns boolean
language plpgsql immutable as $$
begin
    return coalesce(jsonb_path_match(
        _matches.payload::jsonb, _matches.filter,
        jsonb_build_object('headers', _matches.headers, 'key', _matches.key, 'tag', _matches.tag), true), false);
exception when data_exception or feature_not_supported or program_limit_exceeded or undefined_object then
    return false;
end
$$;
comment on function mqpg._matches(jsonpath, text, text, jsonb, json) is 'Internal: whether a filter chooses a message';

-- functions/consume/_member.sql
-- The member of a broadcast group with that consumer name, which begins where the group does (or at the oldest offset
-- that is left). Made where it is not there yet; null while another call is making it, changes the group or ends it, or
-- keep() moves the topic's oldest offsets: it joins at a later receive.
-- Locks: for a new one the topic's keeping (see _lock_topic), 1836150841 with a hash of the name, and the group's row,
-- KEY SHARE (see _lock_group), all by trying.
-- Cost: one index lookup; for a new one a cursor row a queue. Errors: MQ005 (unsubscribed meanwhile), 40001.
create function mqpg._member(parent mqpg.subscription, queues int, consumer text) returns mqpg.subscription
language plpgsql as $$
declare
    v_member mqpg.subscription;
begin
    select s.* into v_member from mqpg.subscription s
    where s.topic_id = (_member.parent).topic_id and s.consumer_group = (_member.parent).consumer_group
        and s.member = _member.consumer;
    if found or not pg_try_advisory_xact_lock(
        1836150841, hashtext((_member.parent).subscription_id || ' ' || _member.consumer)) then
        return v_member;
    end if;
    if not pg_try_advisory_xact_lock_shared(1836150838, (_member.parent).topic_id) then
        return null;
    end if;
    perform from mqpg.subscription s
    where s.subscription_id = (_member.parent).subscription_id for key share skip locked;
    if not found then
        if exists (
            select from mqpg.subscription s where s.subscription_id = (_member.parent).subscription_id) then
            return null;
        end if;
        raise exception using errcode = 'MQ005', message = format(
            'consumer group %L was unsubscribed meanwhile', (_member.parent).consumer_group);
    end if;
    -- a look first: a conflict would use up an id; who had the lock before may have committed
    insert into mqpg.subscription (
        consumer_group, topic_id, member, member_of, mode, start, filter, tags, max_attempts, retry_delay, on_failure,
        paused)
    select p.consumer_group, p.topic_id, _member.consumer, p.subscription_id, p.mode, p.start, p.filter, p.tags,
        p.max_attempts, p.retry_delay, p.on_failure, p.paused
    from mqpg.subscription p
    where p.subscription_id = (_member.parent).subscription_id
        and not exists (
            select from mqpg.subscription s
            where s.member_of = p.subscription_id and s.member = _member.consumer)
    on conflict do nothing
    returning * into v_member;
    if not found then
        select s.* into v_member from mqpg.subscription s
        where s.member_of = (_member.parent).subscription_id and s.member = _member.consumer;
        if not found then
            raise exception using errcode = '40001',
                message = 'the consumer joined the group concurrently: try the transaction again';
        end if;
        return v_member;
    end if;
    insert into mqpg.cursor (subscription_id, queue_id, slot, version, committed, claimed, at, action, claims)
    select v_member.subscription_id, q.queue_id, mqpg._cursor_slot(), 1, p.position, p.position, clock_timestamp(),
        's', '{}'
    from generate_series(-1, _member.queues - 1) as q(queue_id)
    cross join lateral (select case
        when q.queue_id = -1 then 0
        else greatest(
            (mqpg._cursor((_member.parent).subscription_id, q.queue_id)).committed,
            mqpg._oldest(v_member.topic_id, q.queue_id, 0))
    end as position) as p;
    return v_member;
end
$$;
comment on function mqpg._member(mqpg.subscription, int, text) is 'Internal: member of a broadcast group';

-- functions/consume/_missing_body.sql
-- Raises MQ014: offsets without a body are an error, never a skip. Or 40001 where a segment was dropped since the
-- caller's snapshot was taken (or a moment ago, during the call): its table is gone for everybody at once, what
-- keep() copied out of it is not to be seen in an older snapshot, and trying again finds it.
-- Locks: none. Cost: none.
create function mqpg._missing_body(topic text, queue_id int, from_offset bigint, to_offset bigint, got bigint)
returns void
language plpgsql as $$
begin
    if exists (
        select from mqpg.segment s
        where s.family = 'log' and (
            s.body_dropped_at > clock_timestamp() - interval '1 minute'
            or (s.body_dropped_at is null and to_regclass('mqpg.commit_log_' || s.segment_no) is null))
    ) then
        raise exception using errcode = '40001', message = format(
            'a segment was dropped while queue %s of topic %L was read: try the transaction again',
            _missing_body.queue_id, _missing_body.topic);
    end if;
    raise exception using errcode = 'MQ014', message = format(
        'queue %s of topic %L lacks message bodies: offsets %s to %s hold %s', _missing_body.queue_id,
        _missing_body.topic, _missing_body.from_offset, _missing_body.to_offset - 1, _missing_body.got);
end
$$;
comment on function mqpg._missing_body(text, int, bigint, bigint, bigint) is 'Internal: a body is missing';

-- functions/consume/_next_claim.sql
-- Which of a queue's claims the next receive takes over: its place among `claims`; 0: none, fresh messages
-- are next; -1: nothing is to be had. What a lease that ran out left behind, or was given back, goes first.
-- exclusive, broadcast: an open claim holds the queue. pinned: what its owner left open is taken over without
-- waiting for the lease, as nobody else may have it. shared: up to 64 claims are open, a new one needs a place.
-- A failed message that waits for its back-off (negative epoch) holds the queue under block_queue only.
-- Locks: none. Cost: linear in the claims.
create function mqpg._next_claim(subscription mqpg.subscription, claims mqpg.claim []) returns int
language plpgsql volatile as $$
declare
    v_mode text := (_next_claim.subscription).mode;
    v_now timestamptz := clock_timestamp();
    v_claim mqpg.claim;
    v_nth int := 0;
    v_open int := 0;
    v_free int;         -- the first that was given back
    v_expired int;      -- the first whose lease is over (pinned: any that has one)
begin
    foreach v_claim in array _next_claim.claims loop
        v_nth := v_nth + 1;
        if v_claim.epoch > 0 then
            v_open := v_open + 1;
            if v_claim.lease_until <= v_now or v_mode = 'pinned' then
                v_expired := coalesce(v_expired, v_nth);
            elsif v_mode <> 'shared' then
                return -1;
            end if;
        elsif v_claim.lease_until <= v_now then
            v_free := coalesce(v_free, v_nth);
        elsif (_next_claim.subscription).on_failure = 'block_queue' then
            return -1;
        end if;
    end loop;
    if v_mode = 'shared' and v_open >= 64 then
        return coalesce(v_expired, -1);
    end if;
    return coalesce(least(v_free, v_expired), 0);
end
$$;
comment on function mqpg._next_claim(mqpg.subscription, mqpg.claim [])
    is 'Internal: claim that the next receive takes over';

-- functions/consume/_open_claim.sql
-- Locks the queue of a receipt and finds its claim (I8). A receipt is good until somebody else takes the
-- range over: a late one that nobody overtook still counts.
-- Locks: as _lock_cursor. Cost: one cursor version read, two where the delivery was settled in part.
-- Errors: MQ007 (malformed, changed, or of no subscription here), MQ008 (spent), MQ009 (stale), 55P03.
create function mqpg._open_claim(
    receipt text, out subscription mqpg.subscription, out last_version mqpg.cursor, out claim mqpg.claim,
    out rest mqpg.claim []
)
language plpgsql as $$
declare
    v_receipt record;
    v_claim mqpg.claim;
    v_waited boolean;
begin
    v_receipt := mqpg._parse_receipt(_open_claim.receipt);
    select s.* into _open_claim.subscription from mqpg.subscription s
    where s.subscription_id = v_receipt.subscription_id;
    if not found then
        raise exception using errcode = 'MQ007', message = format(
            'receipt %L belongs to no subscription here', _open_claim.receipt);
    end if;
    v_waited := mqpg._lock_cursor(v_receipt.subscription_id, v_receipt.queue_id);
    _open_claim.last_version := mqpg._cursor(v_receipt.subscription_id, v_receipt.queue_id);
    if (_open_claim.last_version).version is null or v_receipt.epoch / 1048576 > (_open_claim.last_version).version then
        raise exception using errcode = 'MQ007', message = format(
            'receipt %L was not issued here', _open_claim.receipt);
    end if;
    _open_claim.rest := '{}';
    foreach v_claim in array (_open_claim.last_version).claims loop
        if v_claim.epoch = v_receipt.epoch and v_claim.from_offset >= v_receipt.from_offset
            and v_claim.to_offset <= v_receipt.to_offset then
            _open_claim.claim := v_claim;
        else
            _open_claim.rest := _open_claim.rest || v_claim;
        end if;
    end loop;
    -- bounds that are not the claim's: it is gone, settled in part, or the receipt was changed
    if ((_open_claim.claim).from_offset = v_receipt.from_offset
        and (_open_claim.claim).to_offset = v_receipt.to_offset) is not true then
        perform mqpg._check_issued(
            _open_claim.receipt, v_receipt.subscription_id, v_receipt.queue_id, v_receipt.epoch, v_receipt.from_offset,
            v_receipt.to_offset);
        if (_open_claim.claim).epoch is null then
            perform mqpg._refuse_receipt(
                _open_claim.receipt, v_receipt.subscription_id, v_receipt.queue_id, v_receipt.epoch);
        end if;
    end if;
end
$$;
comment on function mqpg._open_claim(text) is 'Internal: the claim that a receipt stands for, locked';

-- functions/consume/_pack_claims.sql
-- Claims that nobody holds for messages given one by one: those with the same count of deliveries, key and time that
-- they wait for share one ('-infinity': free).
-- Locks: none. Cost: linear in the messages.
create function mqpg._pack_claims(
    version bigint, offsets bigint [], deliveries int [], keys text [], untils timestamptz []
) returns mqpg.claim []
language sql immutable as $$
    select coalesce(array_agg(row(
        -_pack_claims.version - 1, g.first, g.last + 1, g.deliveries, g.until, null, null,
        case when g.last - g.first + 1 > cardinality(g.offsets) then g.offsets end, g.key
    )::mqpg.claim order by g.first), '{}')
    from (
        select min(u.o) as first, max(u.o) as last, array_agg(u.o order by u.o) as offsets, u.deliveries, u.key, u.until
        from unnest(_pack_claims.offsets, _pack_claims.deliveries, _pack_claims.keys, _pack_claims.untils)
            as u(o, deliveries, key, until)
        group by u.deliveries, u.key, u.until
    ) as g
$$;
comment on function mqpg._pack_claims(bigint, bigint [], int [], text [], timestamptz [])
    is 'Internal: free claims for single messages';

-- functions/consume/_parse_receipt.sql
-- The parts of a receipt; MQ007 where the text is none.
-- Locks: none. Cost: one regular expression.
create function mqpg._parse_receipt(
    receipt text, out subscription_id int, out queue_id int, out epoch bigint, out from_offset bigint,
    out to_offset bigint
)
language plpgsql immutable as $$
begin
    if _parse_receipt.receipt is null then
        raise exception using errcode = 'MQ001', message = 'receipt must not be null';
    end if;
    if _parse_receipt.receipt !~ '^[0-9]{1,9}\.(-1|[0-9]{1,4})\.[0-9]{1,18}\.[0-9]{1,18}\.[0-9]{1,18}$' then
        raise exception using errcode = 'MQ007',
            message = format('%L is not a receipt', left(_parse_receipt.receipt, 100));
    end if;
    subscription_id := split_part(_parse_receipt.receipt, '.', 1)::int;
    queue_id := split_part(_parse_receipt.receipt, '.', 2)::int;
    epoch := split_part(_parse_receipt.receipt, '.', 3)::bigint;
    from_offset := split_part(_parse_receipt.receipt, '.', 4)::bigint;
    to_offset := split_part(_parse_receipt.receipt, '.', 5)::bigint;
end
$$;
comment on function mqpg._parse_receipt(text) is 'Internal: parts of a receipt';

-- functions/consume/_pick.sql
-- Looks through fresh messages of a queue for those that the subscription's filter chooses: up to `most` of them,
-- and where the look ended. Goes on over what does not match, in growing steps: over about 4096 offsets, and while
-- nothing is found to the tail, or for the setting filter_time. What lies before `upto` and is not picked is done with.
-- Locks: none. Cost: reads and evaluates what it passes. Errors: MQ014, 40001.
create function mqpg._pick(
    subscription mqpg.subscription, queue_id int, from_offset bigint, tail bigint, most int,
    out picked bigint [], out upto bigint
)
language plpgsql as $$
declare
    v_until timestamptz := clock_timestamp() + mqpg._setting('filter_time')::interval;
    v_step int := _pick.most;
    v_to bigint;
begin
    picked := '{}';
    upto := _pick.from_offset;
    loop
        v_to := least(upto + v_step, _pick.tail);
        picked := picked || (mqpg._chosen(_pick.subscription, _pick.queue_id, upto, v_to)).offsets;
        upto := v_to;
        exit when cardinality(picked) >= _pick.most or (picked <> '{}' and upto - _pick.from_offset >= 4096)
            or upto >= _pick.tail or clock_timestamp() >= v_until;
        v_step := least(v_step * 2, 4096);
    end loop;
    if cardinality(picked) > _pick.most then
        picked := picked[:_pick.most];
        upto := picked[_pick.most] + 1;
    end if;
end
$$;
comment on function mqpg._pick(mqpg.subscription, int, bigint, bigint, int)
    is 'Internal: next messages that a filter chooses';

-- functions/consume/_picked_runs.sql
-- Runs (see _runs) cut to where they hold one of the picked offsets; runs without any are left out.
-- Locks: none. Cost: runs times picked offsets.
create function mqpg._picked_runs(
    picked bigint [], inout ids bigint [], inout bodies bigint [], inout offsets bigint [], inout lengths int [],
    inout attempts int [], inout lowest bigint, inout highest bigint
)
language sql immutable as $$
    select array_agg(r.id + p.first - r.first_offset order by r.o),
        array_agg(r.body + p.first - r.first_offset order by r.o),
        array_agg(p.first order by r.o), array_agg((p.last - p.first + 1)::int order by r.o),
        array_agg(r.attempt order by r.o), min(r.body) / 1024, max(r.body) / 1024
    from unnest(_picked_runs.ids, _picked_runs.bodies, _picked_runs.offsets, _picked_runs.lengths, _picked_runs.attempts)
        with ordinality as r(id, body, first_offset, n, attempt, o)
    cross join lateral (
        select min(u.u) as first, max(u.u) as last from unnest(_picked_runs.picked) as u
        where u.u >= r.first_offset and u.u < r.first_offset + r.n
    ) as p
    where p.first is not null
$$;
comment on function mqpg._picked_runs(
    bigint [], bigint [], bigint [], bigint [], int [], int [], bigint, bigint
) is 'Internal: runs cut to picked offsets';

-- functions/consume/_refuse_receipt.sql
-- Says what became of a receipt whose claim is gone: MQ009 where the claim was taken over, MQ008 where it was
-- settled or given back. The history of the cursor tells; where that is dropped, it counts as spent.
-- Locks: none. Cost: the cursor's versions since the claim; an error path only.
create function mqpg._refuse_receipt(receipt text, subscription_id int, queue_id int, epoch bigint) returns void
language plpgsql as $$
declare
    v_action "char";
begin
    select c.action into v_action from mqpg.cursor c
    where c.subscription_id = _refuse_receipt.subscription_id and c.queue_id = _refuse_receipt.queue_id
        and c.version > _refuse_receipt.epoch / 1048576
        and not exists (select from unnest(c.claims) k where k.epoch = _refuse_receipt.epoch)
    order by c.version limit 1;
    if v_action in ('t', 'd', 'u', 'q', 'i') then
        raise exception using errcode = 'MQ009', message = format(
            'receipt %L is stale: its messages were taken over', _refuse_receipt.receipt);
    end if;
    raise exception using errcode = 'MQ008', message = format(
        'receipt %L is spent: its messages are settled or given back', _refuse_receipt.receipt);
end
$$;
comment on function mqpg._refuse_receipt(text, int, int, bigint) is 'Internal: error for a receipt without a claim';

-- functions/consume/_seek_position.sql
-- The offset that seek() goes to on one queue of a subscription (-1: its retry lane).
-- Locks: none. Cost: see _position(). Errors: MQ013.
create function mqpg._seek_position(subscription mqpg.subscription, queue_id int, target text, is_offset boolean)
returns bigint
language plpgsql as $$
declare
    v_topic_id int := (_seek_position.subscription).topic_id;
    v_lane int := case _seek_position.queue_id when -1 then (_seek_position.subscription).subscription_id else 0 end;
    v_tail bigint;
begin
    if not _seek_position.is_offset then
        return mqpg._position(v_topic_id, _seek_position.queue_id, v_lane, _seek_position.target);
    end if;
    v_tail := mqpg._tail(v_topic_id, _seek_position.queue_id, v_lane);
    if _seek_position.target::numeric not between 0 and v_tail then
        raise exception using errcode = 'MQ013', message = format(
            'target must lie between 0 and the next offset %s of queue %s, not %s', v_tail, _seek_position.queue_id,
            _seek_position.target);
    end if;
    return greatest(
        _seek_position.target::bigint, mqpg._oldest(v_topic_id, _seek_position.queue_id, v_lane));
end
$$;
comment on function mqpg._seek_position(mqpg.subscription, int, text, boolean) is 'Internal: where seek() goes';

-- functions/consume/_take_letters.sql
-- Takes dead letters out: all of a consumer group, those of message_ids, or those that a jsonpath chooses; the oldest
-- ids first, up to max_messages. They go to former_letter with their fate, and are returned. Each is taken by one
-- caller: a second one waits for the first and finds it gone.
-- Locks: the letters' rows, in the order of their ids. Cost: one delete and one insert a letter; with a filter one row
-- of the commit log for each letter looked at. Errors: MQ001, MQ003, MQ005, MQ020.
create function mqpg._take_letters(
    consumer_group text, topic text, message_ids bigint [], filter jsonpath, max_messages int, fate text
) returns setof mqpg.dead_letter
language plpgsql as $$
declare
    v_group mqpg.subscription := mqpg._subscription(_take_letters.consumer_group, _take_letters.topic);
begin
    perform mqpg._check_letters(_take_letters.message_ids, _take_letters.filter);
    if _take_letters.max_messages is not null then
        perform mqpg._check_range('max_messages', _take_letters.max_messages, 1, 2147483647);
    end if;
    return query
    with chosen as materialized (
        select d.subscription_id, d.message_id
        from mqpg.dead_letter d
        where d.subscription_id in (
                select s.subscription_id from mqpg.subscription s
                where v_group.subscription_id in (s.subscription_id, s.member_of))
            and (_take_letters.message_ids is null or d.message_id = any(_take_letters.message_ids))
            and (_take_letters.filter is null or (
                select mqpg._matches(_take_letters.filter, m.key, m.tag, m.headers, m.payload)
                from mqpg._message(d.deliver_id) m))
        order by d.message_id, d.subscription_id
        limit _take_letters.max_messages
        for update of d
    ),
    taken as (
        delete from mqpg.dead_letter d using chosen c
        where d.subscription_id = c.subscription_id and d.message_id = c.message_id
        returning d.*
    ),
    noted as (
        insert into mqpg.former_letter (subscription_id, message_id, attempts, reason, history, died_at, fate)
        select t.subscription_id, t.message_id, t.attempts, t.reason, t.history, t.died_at, _take_letters.fate
        from taken t
    )
    select t.* from taken t;
end
$$;
comment on function mqpg._take_letters(text, text, bigint [], jsonpath, int, text) is 'Internal: take dead letters out';

-- functions/consume/_waiting.sql
-- How many messages wait in a queue behind, or as, a failed one.
-- Locks: none. Cost: linear in the claims.
create function mqpg._waiting(claims mqpg.claim []) returns bigint
language sql immutable as $$
    select coalesce(sum(coalesce(cardinality(c.picked), c.to_offset - c.from_offset)), 0)::bigint
    from unnest(_waiting.claims) as c
    where c.epoch < 0 and c.lease_until > '-infinity'
$$;
comment on function mqpg._waiting(mqpg.claim []) is 'Internal: number of messages held back';

-- functions/consume/_wait_for_cursor.sql
-- Takes a queue's cursor lock for the rest of the transaction, waiting up to 20 ms; false where it was not to be had.
-- Locks: 1836150833, subscription_id * 1024 + queue_id + 1. Cost: a subtransaction.
create function mqpg._wait_for_cursor(subscription_id int, queue_id int) returns boolean
language plpgsql as $$
declare
    v_timeout text := current_setting('lock_timeout');
begin
    perform set_config('lock_timeout', '20ms', true);
    perform pg_advisory_xact_lock(
        1836150833, _wait_for_cursor.subscription_id * 1024 + _wait_for_cursor.queue_id + 1);
    perform set_config('lock_timeout', v_timeout, true);
    return true;
exception when lock_not_available then
    return false;
end
$$;
comment on function mqpg._wait_for_cursor(int, int) is 'Internal: take a queue''s cursor lock, waiting a moment';

-- functions/consume/ack.sql
-- Acknowledges a delivery, or its first part.
-- Arguments:
--   receipt: the receipt of the delivery.
--   through: acknowledge only the messages up to and including this offset, and keep the rest; null
--       (default): all.
-- Locks: the queue's cursor lock, waited for up to the setting lock_timeout.
-- Cost: one cursor version.
-- Errors: MQ001 (through is outside the delivery), MQ007 (malformed receipt), MQ008 (spent), MQ009
-- (stale), 55P03, 40001.
create function mqpg.ack(receipt text, through bigint default null) returns void
language plpgsql set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off as $$
declare
    v record;
    v_claim mqpg.claim;
    v_left mqpg.claim;
    v_receipt record;
    v_version bigint;
begin
    v := mqpg._open_claim(ack.receipt);
    if ack.through is not null then
        v_receipt := mqpg._parse_receipt(ack.receipt);
        if ack.through not between v_receipt.from_offset and v_receipt.to_offset - 1 then
            raise exception using errcode = 'MQ001', message = format(
                'through must be an offset of the delivery, %s to %s, not %s', v_receipt.from_offset,
                v_receipt.to_offset - 1, ack.through);
        end if;
        v_claim := v.claim;
        if ack.through < v_claim.from_offset then
            return;    -- already acknowledged
        end if;
        v_claim.from_offset := ack.through + 1;
        v_left := mqpg._settle_offsets(v_claim, '{}');
    end if;
    v_version := mqpg._write_cursor(
        v.last_version, 'a', (v.claim).epoch, (v.last_version).claimed, (v.last_version).owner,
        case when v_left.epoch is null then v.rest else v_left || v.rest end);
end
$$;
comment on function mqpg.ack(text, bigint) is 'Acknowledge a delivery, or its part up to an offset';

-- functions/consume/dead_letters.sql
-- Lists the dead letters of a subscription, the latest first. Of a broadcast group it lists those
-- of all members.
-- Arguments:
--   consumer_group, topic: names of the group and the topic.
--   max_messages: length of a page, 1 to 100000; default 100.
--   after_id: message id of the last row of the previous page, which may be gone meanwhile; null
--       (default): the first page.
--   message_ids: list only these; null (default): all.
--   filter: a jsonpath that chooses dead letters, as a subscription's filter does; null (default):
--       all.
--   after_consumer: consumer of the last row of the previous page; needed for a broadcast group
--       where several members have a dead letter of that message; default null.
-- Returns: attempts is the number of deliveries, reason that of the last one, and history all that
-- is known of each (attempt, delivered_at, consumer, failed_at, reason).
-- Locks: none.
-- Cost: one row of the commit log for each dead letter that is examined.
-- Errors: MQ001 (argument), MQ002 (name), MQ003 (unknown topic), MQ005 (unknown subscription),
-- MQ014 (a body is missing), MQ020 (filter).
create function mqpg.dead_letters(
    consumer_group text, topic text, max_messages int default 100, after_id bigint default null,
    message_ids bigint [] default null, filter jsonpath default null, after_consumer text default null
) returns table (
    message_id bigint, queue_id int, key text, payload json, attempts int, reason text, died_at timestamptz,
    headers jsonb, tag text, history jsonb, consumer text
)
language plpgsql stable as $$
declare
    v_group mqpg.subscription := mqpg._subscription(dead_letters.consumer_group, dead_letters.topic);
    v_page record;
    v_dead record;
    v_body record;
    v_left int := dead_letters.max_messages;
begin
    perform mqpg._check_range('max_messages', dead_letters.max_messages, 1, 100000);
    perform mqpg._check_letters(dead_letters.message_ids, dead_letters.filter);
    if dead_letters.after_id is null and dead_letters.after_consumer is not null then
        raise exception using errcode = 'MQ001', message = 'after_consumer is allowed only together with after_id';
    end if;
    v_page := mqpg._died_at(v_group.subscription_id, dead_letters.after_id, dead_letters.after_consumer);
    for v_dead in
        select d.*, s.member from mqpg.subscription s
        join mqpg.dead_letter d on d.subscription_id = s.subscription_id
        where v_group.subscription_id in (s.subscription_id, s.member_of)
            and (dead_letters.after_id is null
                or (d.died_at, d.message_id, s.member) < (v_page.died_at, dead_letters.after_id, v_page.member))
            and (dead_letters.message_ids is null or d.message_id = any(dead_letters.message_ids))
        order by d.died_at desc, d.message_id desc, s.member desc
    loop
        select m.key, m.tag, m.headers, m.payload into v_body from mqpg._message(v_dead.deliver_id) m;
        if not found then
            raise exception using errcode = 'MQ014', message = format(
                'the body of dead letter %s of consumer group %L on topic %L is missing', v_dead.message_id,
                dead_letters.consumer_group, dead_letters.topic);
        end if;
        continue when dead_letters.filter is not null and not mqpg._matches(
            dead_letters.filter, v_body.key, v_body.tag, v_body.headers, v_body.payload);
        message_id := v_dead.message_id;
        queue_id := v_dead.queue_id;
        key := v_body.key;
        payload := v_body.payload;
        attempts := v_dead.attempts;
        reason := v_dead.reason;
        died_at := v_dead.died_at;
        headers := v_body.headers;
        tag := v_body.tag;
        history := v_dead.history;
        consumer := nullif(v_dead.member, '');
        return next;
        v_left := v_left - 1;
        exit when v_left = 0;
    end loop;
end
$$;
comment on function mqpg.dead_letters(text, text, int, bigint, bigint [], jsonpath, text) is
    'Dead letters of a subscription, latest first';

-- functions/consume/discard_dead_letters.sql
-- Discards dead letters for good. trace() still knows them until the setting `jump_keep` is over.
-- Arguments:
--   consumer_group, topic: names of the group and the topic.
--   message_ids: discard only these; null (default): all.
--   filter: a jsonpath that chooses dead letters, as a subscription's filter does; null (default):
--       all.
--   max_messages: discard at most so many; null (default): no limit.
-- Returns: how many were discarded.
-- Locks: the dead letters' rows.
-- Cost: one row deleted and one written for each dead letter.
-- Errors: MQ001 (argument), MQ002 (name), MQ003 (unknown topic), MQ005 (unknown subscription),
-- MQ020 (filter).
create function mqpg.discard_dead_letters(
    consumer_group text, topic text, message_ids bigint [] default null, filter jsonpath default null,
    max_messages int default null
) returns bigint
language sql as $$
    select count(*) from mqpg._take_letters(
        discard_dead_letters.consumer_group, discard_dead_letters.topic, discard_dead_letters.message_ids,
        discard_dead_letters.filter, discard_dead_letters.max_messages, 'discarded')
$$;
comment on function mqpg.discard_dead_letters(text, text, bigint [], jsonpath, int) is
    'Discard dead letters for good; returns how many';

-- functions/consume/extend.sql
-- Extends the lease of a delivery (a heartbeat).
-- Arguments:
--   receipt: the receipt of the delivery.
--   lease: how long from now the lease lasts, at least 10 ms.
-- Locks: the queue's cursor lock, waited for up to the setting lock_timeout.
-- Cost: one cursor version.
-- Errors: MQ001 (lease), MQ007 (malformed receipt), MQ008 (spent), MQ009 (stale), 55P03, 40001.
create function mqpg.extend(receipt text, lease interval) returns void
language plpgsql set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off as $$
declare
    v record;
    v_claim mqpg.claim;
begin
    perform mqpg._interval('lease', extend.lease, '10 milliseconds');
    select o.* into v from mqpg._open_claim(extend.receipt) o;
    v_claim := v.claim;
    v_claim.lease_until := clock_timestamp() + extend.lease;
    perform mqpg._write_cursor(
        v.last_version, 'e', v_claim.epoch, (v.last_version).claimed, (v.last_version).owner, v_claim || v.rest);
end
$$;
comment on function mqpg.extend(text, interval) is 'Extend the lease of a delivery';

-- functions/consume/fetch.sql
-- Reads a queue from an offset without claiming anything, for consumers that store their offset in
-- their own database (C2). At the end of the queue it returns nothing. In its rows receipt is null
-- and attempt is 1.
-- Arguments:
--   topic: name of the topic.
--   queue_id: the queue, 0 to the topic's queues - 1.
--   from_offset: the first offset to read, from the queue's oldest one to its next one.
--   max_messages: return at most so many, 1 to 10000; default 100.
-- Locks: none.
-- Cost: one index lookup for each run of messages.
-- Errors: MQ001 (argument), MQ003 (unknown topic), MQ013 (from_offset is below the oldest offset or
-- beyond the next one), MQ014 (a body is missing), 40001 (a segment was dropped since the caller's
-- snapshot).
create function mqpg.fetch(topic text, queue_id int, from_offset bigint, max_messages int default 100)
returns setof mqpg.delivery
language plpgsql stable set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off as $$
declare
    v_topic mqpg.topic := mqpg._topic("fetch".topic);
    v_oldest bigint;
    v_tail bigint;
    v_until bigint;
    v_runs record;
    v_rows bigint;
begin
    perform mqpg._check_range('queue_id', "fetch".queue_id, 0, v_topic.queues - 1);
    perform mqpg._check_range('from_offset', "fetch".from_offset, 0, 9223372036854775807);
    perform mqpg._check_range('max_messages', "fetch".max_messages, 1, 10000);
    v_tail := mqpg._tail(v_topic.topic_id, "fetch".queue_id, 0);
    v_oldest := mqpg._oldest(v_topic.topic_id, "fetch".queue_id, 0);
    if "fetch".from_offset not between v_oldest and v_tail then
        raise exception using errcode = 'MQ013', message = format(
            'from_offset must be between the oldest offset %s and the next offset %s of queue %s, not %s', v_oldest,
            v_tail, "fetch".queue_id, "fetch".from_offset);
    end if;
    v_until := least("fetch".from_offset + "fetch".max_messages, v_tail);
    v_runs := mqpg._runs(v_topic.topic_id, "fetch".queue_id, 0, "fetch".from_offset, v_until);
    if exists (
        select from mqpg.held h
        where h.message_id >= v_runs.lowest * 1024 and h.message_id < v_runs.highest * 1024 + 1024
    ) then
        return query
        select d.* from mqpg._deliveries_held(
            v_topic.name, "fetch".queue_id, 1, null, null, null, v_runs.ids, v_runs.bodies, v_runs.offsets,
            v_runs.lengths, v_runs.attempts, v_runs.lowest, v_runs.highest) as d;
    else
        return query
        select d.* from mqpg._deliveries(
            v_topic.name, "fetch".queue_id, 1, null, null, null, v_runs.ids, v_runs.bodies, v_runs.offsets,
            v_runs.lengths, v_runs.attempts, v_runs.lowest, v_runs.highest) as d;
    end if;
    get diagnostics v_rows = row_count;
    if v_rows <> v_until - "fetch".from_offset then
        perform mqpg._missing_body(v_topic.name, "fetch".queue_id, "fetch".from_offset, v_until, v_rows);
    end if;
end
$$;
comment on function mqpg.fetch(text, int, bigint, int) is
    'Read a queue from an offset without claiming anything';

-- functions/consume/nack.sql
-- Returns messages of a delivery as failed. Each is delivered again later, or becomes a dead letter
-- when its attempts are used up. The receipt stays open for the rest.
-- With on_failure `skip`, and always in the retry lane, a message goes to the subscription's retry
-- lane. With `block_key` and `block_queue` it is retried at its place, and the messages behind it
-- wait.
-- Arguments:
--   receipt: the receipt of the delivery.
--   message_ids: the messages that failed; an empty array does nothing.
--   reason: why, for the dead letter and trace(); default null.
--   delay: how long until the next attempt; null (default): the subscription's retry_delay, doubled
--       with each attempt, up to the setting retry_delay_cap.
--   final: true makes each a dead letter at once, however many attempts are left, and nothing waits
--       for it; default false.
-- Locks: the queue's cursor lock, and for dead letters the subscription's row, each waited for up
-- to the setting lock_timeout.
-- Cost: one row per message and one cursor version.
-- Errors: MQ001 (argument, or a message that is not in the delivery), MQ007 (malformed receipt),
-- MQ008 (spent), MQ009 (stale), 55P03, 40001.
create function mqpg.nack(
    receipt text, message_ids bigint [], reason text default null, delay interval default null,
    final boolean default false
) returns void
language plpgsql set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off as $$
declare
    v record;
    v_subscription mqpg.subscription;
    v_lane int;
    v_message record;
    v_offsets bigint [] := '{}';
    v_held record;
    v_unknown bigint;
begin
    if array_ndims(nack.message_ids) > 1 then
        raise exception using errcode = 'MQ001', message = 'message_ids must be a one-dimensional array';
    end if;
    if nack.message_ids is null or array_position(nack.message_ids, null) is not null then
        raise exception using errcode = 'MQ001', message = 'message_ids must not be null or contain null';
    end if;
    if nack.delay is not null then
        perform mqpg._interval('delay', nack.delay, '0');
    end if;
    if nack.final is null then
        raise exception using errcode = 'MQ001', message = 'final must be true or false, not null';
    end if;
    select o.* into v from mqpg._open_claim(nack.receipt) o;
    v_subscription := v.subscription;
    if nack.final then
        v_subscription.max_attempts := 1;
    end if;
    v_lane := case (v.last_version).queue_id when -1 then (v.subscription).subscription_id else 0 end;
    select u.id into v_unknown from unnest(nack.message_ids) as u(id)
    where not exists (
        select from mqpg._claimed_messages((v.subscription).topic_id, (v.last_version).queue_id, v_lane, v.claim) m
        where m.message_id = u.id)
    limit 1;
    if found then
        raise exception using errcode = 'MQ001',
            message = format('message_ids must be in the delivery; %s is not, or no longer', v_unknown);
    end if;
    if nack.message_ids = '{}' then
        return;
    end if;
    if v_lane <> 0 or (v.claim).attempt >= v_subscription.max_attempts then
        -- Dead letters may be written, and they must not outlive the subscription.
        perform mqpg._hold_subscription(nack.receipt, v_subscription.subscription_id);
    end if;
    if (v.subscription).on_failure <> 'skip' and v_lane = 0 then
        select h.* into v_held from mqpg._hold_back(
            v_subscription, v.last_version, v.claim, nack.message_ids, nack.reason, nack.delay) h;
        v.rest := v_held.waiting || v.rest;
    else
        for v_message in
            select m.* from mqpg._claimed_messages(
                (v.subscription).topic_id, (v.last_version).queue_id, v_lane, v.claim) m
            where m.message_id = any(nack.message_ids)
        loop
            perform mqpg._give_up(
                v_subscription, v_message.message_id, v_message.deliver_id, v_message.attempt, nack.reason, nack.delay,
                (v.claim).consumer);
            v_offsets := v_offsets || v_message.queue_offset;
        end loop;
        select mqpg._settle_offsets(v.claim, v_offsets) as left_over, null::bigint [] as failed into v_held;
    end if;
    perform mqpg._write_cursor(
        v.last_version, 'n', (v.claim).epoch, (v.last_version).claimed, (v.last_version).owner,
        case when (v_held.left_over).epoch is null then v.rest else v_held.left_over || v.rest end,
        v_held.failed, case when v_held.failed is not null then nack.reason end);
end
$$;
comment on function mqpg.nack(text, bigint [], text, interval, boolean) is
    'Return failed messages of a delivery: to retry, or to the dead letters';

-- functions/consume/ready.sql
-- The topics of a consumer group that got something after a tick, each with its newest tick. It is
-- for clients with many topics: they call it with the greatest tick that they know and receive only
-- from the topics that it names.
-- It does not report what comes back without a tick, such as leases that ran out and released or
-- unpinned messages. It may name a topic that only got a retry of another group, and it names
-- paused topics too.
-- Arguments:
--   consumer_group: name of the group.
--   after_tick: the greatest tick that the caller knows; default 0.
-- Locks: none.
-- Cost: two index lookups when nothing is new; else the ticks since after_tick, or, where there are
-- more than 10000, each queue of each topic. It never scans sequentially, even with a plan that was
-- made for few subscriptions.
-- Errors: MQ001 (argument), MQ002 (name), MQ005 (the group has no subscription).
create function mqpg.ready(consumer_group text, after_tick bigint default 0) returns table (topic text, tick bigint)
language plpgsql stable set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off as $$
declare
    v_newest bigint := (select max(t.tick_id) from mqpg.tick t);
begin
    perform mqpg._check_name('consumer_group', ready.consumer_group);
    perform mqpg._check_range('after_tick', ready.after_tick, 0, 9223372036854775807);
    if not exists (select from mqpg.subscription s where s.consumer_group = ready.consumer_group) then
        raise exception using errcode = 'MQ005', message = format(
            'consumer group %L has no subscription', ready.consumer_group),
            hint = 'Call subscribe() first.';
    end if;
    if v_newest <= ready.after_tick then
        return;
    end if;
    if exists (select from mqpg.tick t where t.tick_id > ready.after_tick order by t.tick_id offset 10000 limit 1) then
        return query
        select t.name, k.tick_id
        from mqpg.subscription s
        join mqpg.topic t on t.topic_id = s.topic_id
        cross join lateral (select max(q.tick_id) as tick_id from generate_series(-1, t.queues - 1) as i(queue_id)
            cross join lateral (
                select c.tick_id from mqpg.consume_queue c
                where c.topic_id = t.topic_id and c.queue_id = i.queue_id
                    and c.subscription_id = case i.queue_id when -1 then s.subscription_id else 0 end
                order by c.base_offset desc limit 1) as q) as k
        where s.consumer_group = ready.consumer_group and s.member = '' and k.tick_id > ready.after_tick
        order by k.tick_id, t.name;
        return;
    end if;
    return query
    select t.name, k.tick_id
    from (
        select u.topic_id, max(n.tick_id) as tick_id
        from mqpg.tick n cross join lateral unnest(n.topic_ids) as u(topic_id)
        where n.tick_id > ready.after_tick
        group by u.topic_id
    ) as k
    join mqpg.subscription s on s.topic_id = k.topic_id
    join mqpg.topic t on t.topic_id = k.topic_id
    where s.consumer_group = ready.consumer_group and s.member = ''
    order by k.tick_id, t.name;
end
$$;
comment on function mqpg.ready(text, bigint) is
    'Topics of a consumer group that got something after a tick';

-- functions/consume/receive.sql
-- Claims messages of one queue, or of the subscription's retry lane, for a lease and returns them.
-- It returns nothing when there is nothing to deliver, or when the topic or subscription is paused.
-- It picks the queue that waited longest, and there first what a lease that ran out left behind. It
-- never waits: it skips a queue that another call has locked. Only in mode shared, where many
-- consumers share a queue, it waits up to 20 ms for one when all others are empty. Messages that
-- the subscription's filter does not choose are skipped and count as consumed.
-- In one transaction with ack() the claim belongs to the transaction (C1), and a rollback returns
-- it at once.
-- Modes: exclusive: a queue with an open claim gives nothing to any consumer. shared: up to 64
-- claims of a queue are open at once. pinned: a queue stays with the consumer that first received
-- from it until unpin(), whatever the lease. broadcast: each consumer name has its own position,
-- from its first receive on.
-- Arguments:
--   consumer_group, topic: names of the group and the topic.
--   max_messages: return at most so many, 1 to 10000; default 100.
--   lease: how long the messages stay with this consumer, 10 ms to 1 day; default 30 s.
--   consumer: name of the consumer; required in the modes pinned and broadcast; default null.
--   queue_id: receive from this queue only, -1 being the retry lane; null (default): any.
-- Locks: the queue's advisory lock, until the end of the transaction.
-- Cost: a look at each queue's cursor and end, one cursor version, and the messages; with a filter
-- also the messages that it does not choose.
-- Errors: MQ001 (argument), MQ003 (unknown topic), MQ005 (unknown subscription), MQ014 (a body is
-- missing), 40001 (REPEATABLE READ callers).
--
-- Example:
--     begin;
--     select message_id, payload, receipt from mqpg.receive('billing', 'orders', max_messages => 10);
--     -- use the messages
--     select mqpg.ack('<receipt>');
--     commit;
create function mqpg.receive(
    consumer_group text, topic text, max_messages int default 100, lease interval default '30 s',
    consumer text default null, queue_id int default null
) returns setof mqpg.delivery
language plpgsql set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off as $$
declare
    v_subscription mqpg.subscription;
    v_topic mqpg.topic;
    v_waiting record;
    v_locked int;           -- shared: the first queue that another call had locked
    v_tail bigint;
    v_cursor mqpg.cursor;
    v_claim mqpg.claim;
    v_runs record;
    v_receipt text;
    v_rows bigint;
begin
    select t.* into v_topic from mqpg.topic t where t.name = receive.topic;
    select s.* into v_subscription from mqpg.subscription s
    where s.topic_id = v_topic.topic_id and s.consumer_group = receive.consumer_group and s.member = '';
    if not found then
        v_subscription := mqpg._subscription(receive.consumer_group, receive.topic);
    end if;
    -- This quick validation suffices for most calls and saves a function call.
    if (receive.max_messages between 1 and 10000 and receive.lease between interval '10 milliseconds' and interval '1 day'
        and receive.consumer is null and receive.queue_id is null and v_subscription.mode in ('exclusive', 'shared'))
        is not true then
        perform mqpg._check_receive(
            v_subscription, v_topic.queues, receive.max_messages, receive.lease, receive.consumer, receive.queue_id);
    end if;
    if v_subscription.paused or v_topic.paused then
        return;
    end if;
    if v_subscription.mode = 'broadcast' then
        v_subscription := mqpg._member(v_subscription, v_topic.queues, receive.consumer);
    end if;
    for v_round in 1..2 loop
        for v_waiting in
            select q.queue_id, c.claimed, c.claims,
                case q.queue_id when -1 then v_subscription.subscription_id else 0 end as lane
            from generate_series(
                coalesce(v_locked, receive.queue_id, -1),
                coalesce(v_locked, receive.queue_id, v_topic.queues - 1)) as q(queue_id)
            cross join lateral (
                select k.claimed, k.at, k.owner, k.claims from mqpg.cursor k
                where k.subscription_id = v_subscription.subscription_id and k.queue_id = q.queue_id
                order by k.version desc limit 1
            ) as c
            where c.owner is null or c.owner = receive.consumer
            order by c.at
        loop
            -- Look before taking the lock, because it is held until the end of the transaction.
            if v_waiting.claims = '{}' then
                v_tail := mqpg._tail(v_topic.topic_id, v_waiting.queue_id, v_waiting.lane);
                continue when v_waiting.claimed >= v_tail;
            else
                v_tail := null;
                continue when case mqpg._next_claim(v_subscription, v_waiting.claims)
                    when -1 then true
                    when 0 then v_waiting.claimed >= mqpg._tail(v_topic.topic_id, v_waiting.queue_id, v_waiting.lane)
                    else false
                end;
            end if;
            if not pg_try_advisory_xact_lock(
                1836150833, v_subscription.subscription_id * 1024 + v_waiting.queue_id + 1) then
                if v_round = 1 then
                    v_locked := coalesce(v_locked, v_waiting.queue_id);
                    continue;
                end if;
                exit when not mqpg._wait_for_cursor(v_subscription.subscription_id, v_waiting.queue_id);
            end if;
            -- A new statement, so that it sees the cursor as the last holder of the lock left it.
            v_cursor := mqpg._cursor(v_subscription.subscription_id, v_waiting.queue_id);
            if v_topic.message_ttl is not null and v_waiting.lane = 0 then
                v_cursor := mqpg._expire(v_topic, v_subscription, v_cursor);
            end if;
            v_claim := mqpg._claim(
                v_subscription, v_cursor, receive.max_messages, receive.lease, receive.consumer, v_tail);
            continue when v_claim is null;
            v_runs := mqpg._runs(
                v_topic.topic_id, v_waiting.queue_id, v_waiting.lane, v_claim.from_offset, v_claim.to_offset);
            if v_claim.picked is not null then
                v_runs := mqpg._picked_runs(
                    v_claim.picked, v_runs.ids, v_runs.bodies, v_runs.offsets, v_runs.lengths, v_runs.attempts,
                    v_runs.lowest, v_runs.highest);
            end if;
            -- A variable, because in the inlined query below an expression would be computed for each row.
            v_receipt := format('%s.%s.%s.%s.%s', v_subscription.subscription_id, v_waiting.queue_id, v_claim.epoch,
                v_claim.from_offset, v_claim.to_offset);
            if exists (
                select from mqpg.held h
                where h.message_id >= v_runs.lowest * 1024 and h.message_id < v_runs.highest * 1024 + 1024
            ) then
                return query
                select d.* from mqpg._deliveries_held(
                    v_topic.name, v_waiting.queue_id, v_claim.attempt, v_receipt, v_claim.settled, v_claim.picked,
                    v_runs.ids, v_runs.bodies, v_runs.offsets, v_runs.lengths, v_runs.attempts, v_runs.lowest,
                    v_runs.highest) as d;
            else
                return query
                select d.* from mqpg._deliveries(
                    v_topic.name, v_waiting.queue_id, v_claim.attempt, v_receipt, v_claim.settled, v_claim.picked,
                    v_runs.ids, v_runs.bodies, v_runs.offsets, v_runs.lengths, v_runs.attempts, v_runs.lowest,
                    v_runs.highest) as d;
            end if;
            get diagnostics v_rows = row_count;
            if v_rows <> coalesce(cardinality(v_claim.picked), v_claim.to_offset - v_claim.from_offset
                - coalesce(cardinality(v_claim.settled), 0)) then
                perform mqpg._missing_body(
                    v_topic.name, v_waiting.queue_id, v_claim.from_offset, v_claim.to_offset, v_rows);
            end if;
            return;
        end loop;
        exit when v_locked is null or v_subscription.mode <> 'shared';
    end loop;
end
$$;
comment on function mqpg.receive(text, text, int, interval, text, int) is
    'Claim messages of one queue for a lease and return them';

-- functions/consume/redrive.sql
-- Sends dead letters back to the subscription that they belong to, and to no other. They go into
-- its retry lane, count their attempts from 1, and are visible with the next append().
-- Arguments:
--   consumer_group, topic: names of the group and the topic.
--   message_ids: redrive only these; an id that is not a dead letter counts as none, so that a
--       repeated call does nothing; null (default): all.
--   filter: a jsonpath that chooses dead letters, as a subscription's filter does; null (default):
--       all.
--   max_messages: redrive at most so many, the smallest ids first; null (default): no limit.
-- Returns: how many were redriven.
-- Locks: the dead letters' rows, so that two calls at once send each dead letter once.
-- Cost: one row deleted and two written for each dead letter.
-- Errors: MQ001 (argument), MQ002 (name), MQ003 (unknown topic), MQ005 (unknown subscription),
-- MQ020 (filter).
create function mqpg.redrive(
    consumer_group text, topic text, message_ids bigint [] default null, filter jsonpath default null,
    max_messages int default null
) returns bigint
language plpgsql as $$
declare
    v_topic_id int := (mqpg._topic(redrive.topic)).topic_id;
    v_now timestamptz := clock_timestamp();
    v_rows bigint;
begin
    insert into mqpg.delayed (
        visible_at, xid, first_id, deliver_id, n, written_at, topic_id, subscription_id, queue_id, attempt, reason)
    select v_now, pg_current_xact_id(), l.message_id, nullif(l.deliver_id, l.message_id), 1, v_now, v_topic_id,
        l.subscription_id, -1, 1, 'redriven'
    from mqpg._take_letters(
        redrive.consumer_group, redrive.topic, redrive.message_ids, redrive.filter, redrive.max_messages,
        'redriven') l;
    get diagnostics v_rows = row_count;
    return v_rows;
end
$$;
comment on function mqpg.redrive(text, text, bigint [], jsonpath, int) is
    'Send dead letters back to their subscription; returns how many';

-- functions/consume/release.sql
-- Returns a delivery unprocessed: any consumer may receive it at once, and the attempt does not
-- count. The receipt is spent.
-- Arguments:
--   receipt: the receipt of the delivery.
-- Locks: the queue's cursor lock, waited for up to the setting lock_timeout.
-- Cost: one cursor version.
-- Errors: MQ001, MQ007 (malformed receipt), MQ008 (spent), MQ009 (stale), 55P03, 40001.
create function mqpg.release(receipt text) returns void
language plpgsql set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off as $$
declare
    v record;
begin
    select o.* into v from mqpg._open_claim(release.receipt) o;
    perform mqpg._write_cursor(
        v.last_version, 'l', (v.claim).epoch, (v.last_version).claimed, (v.last_version).owner,
        mqpg._free_claim(v.claim, v.last_version, (v.claim).attempt - 1) || v.rest);
end
$$;
comment on function mqpg.release(text) is 'Return a delivery without counting the attempt';

-- functions/consume/seek.sql
-- Moves the position of a consumer group. Receipts that were open on the moved queues become stale.
-- Offsets that this skips or repeats are reported by trace() and the audit. A consumer that stores
-- its offset in its own database (C2) follows that one, so move it there too.
-- Arguments:
--   consumer_group, topic: names of the group and the topic.
--   target: 'earliest', 'latest', a time (the first message that became visible then or later), or
--       an offset from 0 to the queue's next one, as text. An offset below the oldest one means the
--       oldest one.
--   queue_id: move only this queue, -1 being the retry lane; required when target is an offset;
--       null (default): all of the topic's queues, without the retry lane.
--   consumer: move only this member of a broadcast group; null (default): all members, and those
--       that join later start there.
-- Locks: the topic against keep(), the broadcast group's rows, and each queue's cursor lock, each
-- waited for up to the setting lock_timeout.
-- Cost: one cursor version per queue.
-- Errors: MQ001 (argument), MQ003 (unknown topic), MQ005 (unknown subscription), MQ013 (offset
-- beyond the next one), 55P03, 40001.
--
-- Example:
--     select mqpg.seek('billing', 'orders', '2026-01-31 12:00+00');
--     select mqpg.seek('billing', 'orders', '1000', queue_id => 3);
create function mqpg.seek(
    consumer_group text, topic text, target text, queue_id int default null, consumer text default null
) returns void
language plpgsql as $$
declare
    v_topic mqpg.topic := mqpg._topic(seek.topic);
    v_group mqpg.subscription := mqpg._subscription(seek.consumer_group, seek.topic);
    v_is_offset boolean := coalesce(seek.target ~ '^-?[0-9]+$', false);
    v_row mqpg.subscription;
    v_queue int;
begin
    if seek.queue_id is not null then
        perform mqpg._check_range('queue_id', seek.queue_id, -1, v_topic.queues - 1);
    elsif v_is_offset then
        raise exception using errcode = 'MQ001', message = 'queue_id must not be null when target is an offset';
    end if;
    if not v_is_offset then
        perform mqpg._check_target('target', seek.target);
    end if;
    if seek.consumer is not null and v_group.mode <> 'broadcast' then
        raise exception using errcode = 'MQ001', message = format(
            'consumer is allowed only in mode broadcast; consumer group %L reads topic %L in mode %s',
            seek.consumer_group, seek.topic, v_group.mode);
    end if;
    perform mqpg._lock_topic(v_topic.topic_id);
    if seek.consumer is null then
        perform mqpg._lock_group(v_group);
    end if;
    for v_row in
        select s.* from mqpg.subscription s
        where v_group.subscription_id in (s.subscription_id, s.member_of)
            and (seek.consumer is null or s.member = seek.consumer)
        order by s.subscription_id
    loop
        for v_queue in coalesce(seek.queue_id, 0)..coalesce(seek.queue_id, v_topic.queues - 1) loop
            perform mqpg._lock_cursor(v_row.subscription_id, v_queue);
            perform mqpg._move_cursor(v_row, v_queue, mqpg._seek_position(v_row, v_queue, seek.target, v_is_offset), 'seek');
        end loop;
    end loop;
    if not found then
        raise exception using errcode = 'MQ001', message = format(
            'consumer %L is not a member of broadcast group %L on topic %L', seek.consumer, seek.consumer_group,
            seek.topic);
    end if;
end
$$;
comment on function mqpg.seek(text, text, text, int, text) is
    'Move a consumer group to earliest, latest, a time or an offset';

-- functions/consume/unpin.sql
-- Ends the ownership of pinned queues. Call it only when the owner's local database is known to
-- hold all that the owner applied, because the next owner begins where the cursor is. What was
-- claimed may be received at once, and open receipts become stale.
-- Arguments:
--   consumer_group, topic: names of the group and the topic.
--   queue_id: unpin only this queue, -1 being the retry lane; null (default): all.
--   consumer: unpin only the queues of this consumer; null (default): of any.
-- Locks: each queue's cursor lock, waited for up to the setting lock_timeout.
-- Cost: one cursor version per queue.
-- Errors: MQ001 (argument, or another mode than pinned), MQ002 (name), MQ003 (unknown topic), MQ005
-- (unknown subscription), 55P03, 40001.
create function mqpg.unpin(consumer_group text, topic text, queue_id int default null, consumer text default null)
returns void
language plpgsql as $$
declare
    v_subscription mqpg.subscription := mqpg._subscription(unpin.consumer_group, unpin.topic);
    v_topic mqpg.topic := mqpg._topic(unpin.topic);
    v_queue int;
    v_cursor mqpg.cursor;
    v_free mqpg.claim [];
    v_claim mqpg.claim;
begin
    if v_subscription.mode <> 'pinned' then
        raise exception using errcode = 'MQ001', message = format(
            'unpin() is allowed only in mode pinned; consumer group %L reads topic %L in mode %s',
            unpin.consumer_group, unpin.topic, v_subscription.mode);
    end if;
    if unpin.queue_id is not null then
        perform mqpg._check_range('queue_id', unpin.queue_id, -1, v_topic.queues - 1);
    end if;
    if unpin.consumer is not null then
        perform mqpg._check_name('consumer', unpin.consumer);
    end if;
    for v_queue in coalesce(unpin.queue_id, -1)..coalesce(unpin.queue_id, v_topic.queues - 1) loop
        perform mqpg._lock_cursor(v_subscription.subscription_id, v_queue);
        v_cursor := mqpg._cursor(v_subscription.subscription_id, v_queue);
        continue when v_cursor.owner is null or v_cursor.owner <> unpin.consumer;
        v_free := '{}';
        foreach v_claim in array v_cursor.claims loop
            v_free := v_free || mqpg._free_claim(v_claim, v_cursor, v_claim.attempt);
        end loop;
        perform mqpg._write_cursor(v_cursor, 'u', null, v_cursor.claimed, null, v_free);
    end loop;
end
$$;
comment on function mqpg.unpin(text, text, int, text) is
    'End a consumer''s ownership of pinned queues';

-- functions/consume/_unchosen.sql
-- What the filters of subscriptions, as they are now, do not choose of the messages in their topics' queues: such a
-- message counts as consumed without a delivery, as the audit must know.
-- Locks: none. Cost: reads the bodies of all topics that are filtered, once for each such subscription.
-- Errors: MQ014, 40001.
create function mqpg._unchosen() returns table (subscription_id int, message_id bigint)
language sql volatile as $$
    select s.subscription_id, u.first_id + o.o - u.start
    from mqpg.subscription s
    join mqpg.consume_queue c on c.topic_id = s.topic_id and c.subscription_id = 0
    cross join lateral mqpg._chosen(s, c.queue_id, c.base_offset, c.base_offset + c.n) as k
    cross join lateral unnest(c.first_ids, c.starts) with ordinality as u(first_id, start, i)
    cross join lateral generate_series(u.start, coalesce(c.starts[u.i + 1], c.n) - 1) as o(o)
    where (s.filter is not null or s.tags is not null) and (s.mode <> 'broadcast' or s.member <> '')
        and c.base_offset + o.o not in (select x from unnest(k.offsets) as x)
$$;
comment on function mqpg._unchosen() is 'Internal: messages that subscriptions'' filters do not choose';

-- functions/check/_answer.sql
-- The answer of a compensator outside the database to a hand-out of _due_halves(): commit (with the final payload, if
-- it has one) and rollback decide and the outcome says what came of it; wait backs off (or for retry_after), counts no
-- check, and returns null. So does a decision that somebody else has under way: it is not waited for, or one forgotten
-- transaction would hold up the checks of everybody.
-- Locks: the decision's key, waited for at most 50 ms; the entry's row. Cost: one decision or one update.
-- Errors: MQ001, MQ006, MQ010, 22P02 (not JSON).
create function mqpg._answer(
    handle text, verdict mqpg.verdict, by text, reason text, retry_after interval default null,
    payload text default null
) returns mqpg.outcome
language plpgsql
set lock_timeout = '50ms' as $$
declare
    v_half record;
    v_entry record;
    v_outcome mqpg.outcome;
begin
    select h.* into v_half from mqpg._open_half(_answer.handle) h;
    if _answer.verdict is null then
        raise exception using errcode = 'MQ001', message = 'verdict must not be null';
    end if;
    if _answer.verdict <> 'wait' then
        begin
            v_outcome := mqpg._decide(_answer.handle, case _answer.verdict when 'commit' then 'c' else 'b' end::"char",
                'checker', concat_ws(': ', _answer.by, _answer.reason), _answer.payload);
            perform mqpg._forget_entry(v_half.message_id);
            return v_outcome;
        exception when lock_not_available then
            null;    -- wait
        end;
    elsif v_half.decided then
        perform mqpg._forget_entry(v_half.message_id);
        return null;
    end if;
    select e.* into v_entry from mqpg._entry(v_half.message_id) e;
    if found then
        perform mqpg._wait(v_half.message_id, v_half.producer_group_id, v_entry.msg_id, _answer.retry_after,
            v_entry.vt > clock_timestamp(), coalesce(_answer.by, 'checker'), _answer.reason);
    end if;
    return null;
exception when lock_not_available then
    return null;    -- whoever decides is taking the entry away, too
end
$$;
comment on function mqpg._answer(text, mqpg.verdict, text, text, interval, text)
    is 'Internal: a compensator''s answer about a half';

-- functions/check/_ask_function.sql
-- Asks a group's SQL function f(handle text, key text, headers jsonb, payload json or jsonb) returns
-- mqpg.verdict. Where it fails, answers null or is not such a function, verdict is null and problem says why: a
-- check without a result. A lock time-out inside it is a wait. One that hangs is ended by the session's
-- statement_timeout, which strikes once a statement: after it (timed_out) the caller must ask no other. A cancel
-- request is passed on (in the first half of that time; later it is taken for the time-out). The name is data: it
-- is looked up, never pasted.
-- Locks: the function's, each waited for at most 1 s. Cost: the function's.
create function mqpg._ask_function(
    target text, handle text, key text, headers jsonb, payload json,
    out verdict mqpg.verdict, out problem text, out timed_out boolean
)
language plpgsql
set lock_timeout = '1s' as $$
declare
    v_function regprocedure;
    v_limit interval;
begin
    timed_out := false;
    v_function := coalesce(
        to_regprocedure(_ask_function.target || '(text, text, jsonb, json)'),
        to_regprocedure(_ask_function.target || '(text, text, jsonb, jsonb)'));
    if not exists (
        select from pg_proc p
        where p.oid = v_function and p.prorettype = 'mqpg.verdict'::regtype and not p.proretset and p.prokind = 'f'
    ) then
        problem := format('%s(text, text, jsonb, json) returns mqpg.verdict does not exist', _ask_function.target);
        return;
    end if;
    execute format('select %s($1, $2, $3, $4::%s)', v_function::regproc, (
        select p.proargtypes[3]::regtype from pg_proc p where p.oid = v_function))
    into verdict
    using _ask_function.handle, _ask_function.key, _ask_function.headers, _ask_function.payload;
    if verdict is null then
        problem := format('%s answered null', _ask_function.target);
    end if;
exception
    when lock_not_available then
        verdict := 'wait';
        problem := null;
    when query_canceled then
        v_limit := nullif(current_setting('statement_timeout'), '0')::interval;
        -- Half of it, as the time-out runs from the statement's parsing on, which is not known here.
        if v_limit is null or clock_timestamp() < statement_timestamp() + v_limit / 2 then
            raise;
        end if;
        verdict := null;
        problem := format('%s was cut off: it did not answer in time', _ask_function.target);
        timed_out := true;
    when assert_failure then    -- others leaves it out
        verdict := null;
        problem := format('%s failed: %s (%s)', _ask_function.target, sqlerrm, sqlstate);
    when others then
        verdict := null;
        problem := format('%s failed: %s (%s)', _ask_function.target, sqlerrm, sqlstate);
end
$$;
comment on function mqpg._ask_function(text, text, text, jsonb, json) is 'Internal: ask a group''s SQL function';

-- functions/check/_back_off.sql
-- How long to leave a half alone that was asked about `asked` times: the group's check_after, doubled each time,
-- at most an hour (setting retry_delay_cap).
-- Locks: none. Cost: two lookups.
create function mqpg._back_off(producer_group_id int, asked int) returns interval
language sql stable as $$
    select least(
        coalesce(g.check_after, interval '1 minute') * power(2, least(greatest(_back_off.asked - 1, 0), 30)),
        mqpg._setting('retry_delay_cap')::interval)
    from (values (1)) as one(one)
    left join mqpg.producer_group g on g.producer_group_id = _back_off.producer_group_id
$$;
comment on function mqpg._back_off(int, int) is 'Internal: pause before the next check of a half';

-- functions/check/_check_half.sql
-- Asks about one overdue half whose checker lives in this database, and acts on the answer, all in the caller's
-- transaction: the fence and the decision stand or fall together. An answer that is none counts as a check, with
-- the reason kept, and the next comes after the back-off. Returns whether there was something to ask; timed_out
-- means that the caller's statement has used up its statement_timeout.
-- A decision that somebody has under way is waited for no longer than a local transaction: the verdict is wait then,
-- and the fence goes.
-- Locks: the caller holds the entry's row; as _fence() or the function; the decision's key, waited for at most 50 ms.
-- Cost: a few lookups, an insert, a decision.
create function mqpg._check_half(
    producer_group mqpg.producer_group, msg_id bigint, handle text, out asked boolean, out timed_out boolean
)
language plpgsql
set lock_timeout = '50ms' as $$
declare
    v_half record;
    v_checks record;
    v_verdict mqpg.verdict;
    v_problem text;
    v_by text := _check_half.producer_group.checker;
begin
    asked := false;
    timed_out := false;
    select h.* into v_half from mqpg._half(_check_half.handle) h;
    if not v_half.known or mqpg._is_decided(v_half.message_id) then
        perform pgmq.delete('mqpg_oplog', _check_half.msg_id);
        return;
    end if;
    if mqpg._park_stranger(_check_half.producer_group, v_half.message_id, _check_half.msg_id) then
        return;
    end if;
    asked := true;
    select c.* into v_checks from mqpg._checks(v_half.message_id) c;
    if v_checks.checks >= _check_half.producer_group.max_checks then
        perform mqpg._exhaust(
            _check_half.handle, v_half.message_id, _check_half.producer_group, _check_half.msg_id, v_checks.checks);
        return;
    end if;
    if _check_half.producer_group.checker = 'function' then
        v_by := 'function ' || _check_half.producer_group.checker_target;
        select a.verdict, a.problem, a.timed_out into v_verdict, v_problem, timed_out
        from mqpg._ask_function(_check_half.producer_group.checker_target, _check_half.handle, v_half.key,
            v_half.headers, v_half.payload) a;
    end if;
    begin
        if _check_half.producer_group.checker = 'ledger' then
            v_verdict := mqpg._fence(_check_half.handle);
        end if;
        perform mqpg._log_check(v_half.message_id, 'asked', v_by, coalesce(v_problem, v_verdict::text));
        if v_verdict <> 'wait' then
            perform mqpg._decide(
                _check_half.handle, case v_verdict when 'commit' then 'c' else 'b' end::"char", 'checker', v_by);
            perform pgmq.delete('mqpg_oplog', _check_half.msg_id);
        end if;
    exception when lock_not_available then
        v_verdict := 'wait';
        perform mqpg._log_check(v_half.message_id, 'asked', v_by, v_verdict::text);
    end;
    if v_verdict = 'wait' then
        perform mqpg._wait(v_half.message_id, v_half.producer_group_id, _check_half.msg_id, null, true, v_by, null);
    elsif v_verdict is null then
        perform mqpg._hide_entry(_check_half.msg_id,
            clock_timestamp() + mqpg._back_off(v_half.producer_group_id, v_checks.asked + 1));
    end if;
end
$$;
comment on function mqpg._check_half(mqpg.producer_group, bigint, text) is 'Internal: check one overdue half in SQL';

-- functions/check/_checks.sql
-- How often a half was asked about without being told to wait, and how often at all, since it was last
-- re-armed. (PGMQ's read_ct would count waits, too.)
-- Locks: none. Cost: one index range of check_log.
create function mqpg._checks(message_id bigint, out checks int, out asked int)
language sql stable as $$
    select count(*) filter (where c.event = 'asked') - count(*) filter (where c.event = 'waited'),
        count(*) filter (where c.event = 'asked')
    from mqpg.check_log c
    where c.message_id = _checks.message_id and c.at > coalesce((
        select max(r.at) from mqpg.check_log r
        where r.message_id = _checks.message_id and r.event = 'rearmed'), '-infinity')
$$;
comment on function mqpg._checks(bigint) is 'Internal: how often a half was asked about';

-- functions/check/_claim_entries.sql
-- Takes entries of one producer group that were overdue at `upto` out of the op-log queue, oldest first, and
-- hides them for the lease, as pgmq.read does; but that one's filter cannot use an index (it compares the whole
-- message inside a CASE), and so every entry of a dead group would be walked over for each of the others. It
-- also takes whole seconds only. last_read_at is left alone, for older PGMQ lack it; check_log knows better.
-- Locks: the rows, those of others are skipped. Cost: one index range, one update an entry.
create function mqpg._claim_entries(producer_group text, most int, lease interval, upto timestamptz)
returns table (msg_id bigint, handle text)
language sql as $$
    with due as materialized (
        select q.msg_id from pgmq.q_mqpg_oplog q
        where q.message ->> 'producer_group' = _claim_entries.producer_group and q.vt <= _claim_entries.upto
        order by q.vt
        limit _claim_entries.most
        for update skip locked
    )
    update pgmq.q_mqpg_oplog q set vt = clock_timestamp() + _claim_entries.lease, read_ct = q.read_ct + 1
    from due
    where q.msg_id = due.msg_id
    returning q.msg_id, q.message ->> 'handle'
$$;
comment on function mqpg._claim_entries(text, int, interval, timestamptz)
    is 'Internal: lease overdue entries of a group';

-- functions/check/_due_halves.sql
-- Hands out overdue halves of one group, each for the length of the lease; each hand-out is noted and counts as one
-- check unless it is answered with wait in time. Entries of halves that were decided meanwhile, or are gone,
-- are deleted unasked; for those asked max_checks times the group's policy applies.
-- Locks: as _enqueue_halves(); the entries' rows, those of others are skipped. Cost: a few lookups, one update
-- and one insert a half.
create function mqpg._due_halves(producer_group text, max_messages int, lease interval)
returns table (handle text, topic text, key text, headers jsonb, payload json, attempt int)
language plpgsql as $$
declare
    v_group mqpg.producer_group := mqpg._producer_group(_due_halves.producer_group);
    v_now timestamptz;
    v_entry record;
    v_half record;
    v_checks int;
    v_given int := 0;
    v_claimed boolean;
begin
    perform mqpg._check_range('max_messages', _due_halves.max_messages, 1, 10000);
    perform mqpg._interval('lease', _due_halves.lease, '10 milliseconds');
    perform mqpg._enqueue_halves_now('due_checks');
    perform mqpg._force_sync();
    v_now := clock_timestamp();    -- one for all rounds, so that no entry is taken twice
    loop
        v_claimed := false;
        for v_entry in
            select e.msg_id, e.handle
            from mqpg._claim_entries(
                v_group.name, _due_halves.max_messages - v_given, _due_halves.lease, v_now) e
        loop
            v_claimed := true;
            select h.* into v_half from mqpg._half(v_entry.handle) h;
            if not v_half.known or mqpg._is_decided(v_half.message_id) then
                perform pgmq.delete('mqpg_oplog', v_entry.msg_id);
                continue;
            end if;
            continue when mqpg._park_stranger(v_group, v_half.message_id, v_entry.msg_id);
            select c.checks into v_checks from mqpg._checks(v_half.message_id) c;
            if v_checks >= v_group.max_checks then
                perform mqpg._exhaust(v_entry.handle, v_half.message_id, v_group, v_entry.msg_id, v_checks);
                continue;
            end if;
            perform mqpg._log_check(v_half.message_id, 'asked', v_group.checker);
            v_given := v_given + 1;
            handle := v_entry.handle;
            topic := v_half.topic;
            key := v_half.key;
            headers := v_half.headers;
            payload := v_half.payload;
            attempt := v_checks + 1;
            return next;
        end loop;
        exit when not v_claimed or v_given >= _due_halves.max_messages;
    end loop;
end
$$;
comment on function mqpg._due_halves(text, int, interval) is 'Internal: hand out overdue halves of a group';

-- functions/check/_enqueue_halves.sql
-- Puts the halves that are newly visible and still undecided into the op-log queue, to become visible there when
-- they are overdue. The appender's rule with ticks of its own: rows of kind h whose xid is visible in the given
-- snapshot and not in that of the newest half tick. So none is forgotten and none gets two entries. check_at is
-- rounded up to a tenth of a second, for PGMQ takes one delay a batch. A half tick is stored only where there
-- were new halves. `batch_seq` is the batch id sequence's value, read before the snapshot was taken; the caller's
-- transaction had no xid when it took the snapshot.
-- Locks: 1836150834, 1, tried only: whoever has it does the same work. Cost: an index scan of the new halves, a
-- lookup for each; one row and one insert for each undecided one.
create function mqpg._enqueue_halves(snapshot pg_snapshot, batch_seq bigint) returns bigint
language plpgsql as $$
declare
    v_last mqpg.half_tick;
    v_from xid8;
    v_before xid8 := pg_snapshot_xmax(_enqueue_halves.snapshot);
    v_late xid8 [];
    v_floor bigint;
    v_least bigint;
    v_most bigint;
    v_due record;
    v_entries bigint := 0;
begin
    if not pg_try_advisory_xact_lock(1836150834, 1) then
        return 0;
    end if;
    select h.* into v_last from mqpg.half_tick h order by h.half_tick_id desc limit 1;
    v_from := coalesce(v_last.snapshot_xmax, '0');
    v_late := array(select pg_snapshot_xip(v_last.snapshot));
    v_floor := coalesce(v_last.floor_id, 0);
    select min(l.batch_id), max(l.batch_id) into v_least, v_most
    from (
        select h.batch_id from mqpg.commit_log h
        where h.kind = 'h' and h.batch_id > v_floor and h.xid >= v_from and h.xid < v_before
            and pg_visible_in_snapshot(h.xid, _enqueue_halves.snapshot)
        union all
        select h.batch_id from mqpg.commit_log h
        where h.kind = 'h' and h.batch_id > v_floor and h.xid = any(v_late)
            and pg_visible_in_snapshot(h.xid, _enqueue_halves.snapshot)
    ) as l;
    if v_least is null then
        return 0;
    end if;
    for v_due in
        select to_timestamp(ceil(extract(epoch from l.check_at) * 10) / 10) as at, array_agg(
            jsonb_build_object(
                'handle', mqpg._handle(l.incarnation, l.batch_id * 1024 + i.i, l.nonce),
                'message_id', l.batch_id * 1024 + i.i,
                'producer_group', coalesce(g.name, ''))
            order by l.batch_id, i.i) as entries
        from (
            select h.batch_id, h.n, h.nonce, h.incarnation, h.check_at, h.producer_group_id
            from mqpg.commit_log h
            where h.kind = 'h' and h.batch_id between v_least and v_most and h.xid >= v_from and h.xid < v_before
                and pg_visible_in_snapshot(h.xid, _enqueue_halves.snapshot)
            union all
            select h.batch_id, h.n, h.nonce, h.incarnation, h.check_at, h.producer_group_id
            from mqpg.commit_log h
            where h.kind = 'h' and h.batch_id between v_least and v_most and h.xid = any(v_late)
                and pg_visible_in_snapshot(h.xid, _enqueue_halves.snapshot)
        ) as l
        cross join lateral generate_series(0, l.n - 1) as i(i)
        left join mqpg.producer_group g on g.producer_group_id = l.producer_group_id
        where not exists (
            select from mqpg.op_log o
            where o.message_id = l.batch_id * 1024 + i.i and o.stage = 0
                and o.message_id between v_least * 1024 and v_most * 1024 + 1023)
        group by 1
    loop
        perform pgmq.send_batch('mqpg_oplog', v_due.entries, v_due.at);
        v_entries := v_entries + cardinality(v_due.entries);
    end loop;
    insert into mqpg.half_tick (half_tick_id, xid, snapshot, snapshot_xmax, batch_seq, floor_id, entries, at)
    values (
        greatest(coalesce(v_last.half_tick_id, 0) + 1, (select max(t.tick_id) from mqpg.tick t)),
        pg_current_xact_id(), _enqueue_halves.snapshot, v_before, _enqueue_halves.batch_seq,
        greatest(v_floor, (
            select h.batch_seq from mqpg.half_tick h
            where h.xid <= pg_snapshot_xmin(_enqueue_halves.snapshot)
            order by h.xid desc, h.half_tick_id desc limit 1)),
        v_entries, clock_timestamp());
    return v_entries;
end
$$;
comment on function mqpg._enqueue_halves(pg_snapshot, bigint)
    is 'Internal: put newly visible undecided halves into the op-log queue';

-- functions/check/_enqueue_halves_now.sql
-- _enqueue_halves() up to this moment, for callers other than append(): the sequence first, then the snapshot,
-- once, into a variable, in a transaction that has no xid yet.
-- Locks: as _enqueue_halves(). Cost: its. Errors: MQ015.
create function mqpg._enqueue_halves_now(function_name text) returns void
language plpgsql as $$
declare
    v_batch_seq bigint;
    v_snapshot pg_snapshot;
begin
    perform mqpg._check_own_transaction(_enqueue_halves_now.function_name);
    select case when b.is_called then b.last_value else 0 end into v_batch_seq from mqpg.batch_id b;
    v_snapshot := pg_current_snapshot();
    perform mqpg._enqueue_halves(v_snapshot, v_batch_seq);
end
$$;
comment on function mqpg._enqueue_halves_now(text) is 'Internal: feed the op-log queue up to now';

-- functions/check/_entry.sql
-- The op-log entry of a half, locked, so that answers to one check come one after the other; no row where there
-- is none.
-- Locks: the entry's row. Cost: one index lookup.
create function mqpg._entry(message_id bigint) returns table (msg_id bigint, vt timestamptz)
language sql as $$
    select q.msg_id, q.vt from pgmq.q_mqpg_oplog q
    where (q.message ->> 'message_id')::bigint = _entry.message_id
    for update
$$;
comment on function mqpg._entry(bigint) is 'Internal: op-log entry of a half, locked';

-- functions/check/_exhaust.sql
-- What is to be done with a half that was asked about max_checks times in vain: park it, or roll it back. Where a
-- ledger exists a rollback needs a fence: in this database anybody may have called local_begin(), whatever the
-- group's checker, so one is set here, and its answer counts, whatever it is; one in another database cannot be set
-- from SQL, so such a half is parked, never guessed.
-- Locks: the caller holds the entry's row; as _fence(); the decision's key, waited for as long.
-- Cost: one decision or one move to the archive.
create function mqpg._exhaust(
    handle text, message_id bigint, producer_group mqpg.producer_group, msg_id bigint, checks int
) returns void
language plpgsql
set lock_timeout = '50ms' as $$
declare
    v_verdict mqpg.verdict;
    v_reason text := format('no verdict after %s checks', _exhaust.checks);
    v_last text := (
        select c.reason from mqpg.check_log c
        where c.message_id = _exhaust.message_id and c.event = 'asked' and c.reason <> 'wait'
        order by c.at desc limit 1);
begin
    if _exhaust.producer_group.on_exhausted = 'park' or _exhaust.producer_group.checker = 'url' then
        if _exhaust.producer_group.on_exhausted <> 'park' then
            v_reason := v_reason || '; a rollback would need a fence in the other database';
        end if;
        perform mqpg._park(_exhaust.message_id, _exhaust.msg_id, _exhaust.producer_group.checker,
            concat_ws('; the last one: ', v_reason, v_last));
        return;
    end if;
    begin
        v_verdict := mqpg._fence(_exhaust.handle);
        if v_verdict <> 'wait' then
            perform mqpg._decide(
                _exhaust.handle, case v_verdict when 'commit' then 'c' else 'b' end::"char", 'checker', v_reason);
            perform pgmq.delete('mqpg_oplog', _exhaust.msg_id);
            return;
        end if;
    exception when lock_not_available then
        null;    -- somebody's decision is under way; the fence went with this block
    end;
    perform mqpg._wait(_exhaust.message_id, _exhaust.producer_group.producer_group_id, _exhaust.msg_id, null,
        false, 'ledger', 'the local transaction or a decision is open');
end
$$;
comment on function mqpg._exhaust(text, bigint, mqpg.producer_group, bigint, int)
    is 'Internal: policy for a half that nobody answers for';

-- functions/check/_fence.sql
-- Looks into this database's ledger and makes the answer final (protocol T3): the fence goes in under the key that
-- the local transaction uses. Inserted: rollback; a local transaction that comes later fails on the key. Somebody
-- has it: read the row in a new statement: a local row is a commit, a fence (ours, from before a crash) a rollback.
-- An open local transaction holds the key: wait. Call it in a READ COMMITTED transaction that decides at once.
-- Locks: the ledger key, waited for at most 50 ms. Cost: one insert or one lookup.
create function mqpg._fence(handle text) returns mqpg.verdict
language plpgsql
set lock_timeout = '50ms' as $$
declare
    v_entry text;
begin
    insert into mqpg.ledger (handle, entry) values (_fence.handle, 'fence') on conflict do nothing;
    if found then
        return 'rollback';
    end if;
    select l.entry into v_entry from mqpg.ledger l where l.handle = _fence.handle;
    return case v_entry when 'local' then 'commit' when 'fence' then 'rollback' else 'wait' end;
exception when lock_not_available then
    return 'wait';
end
$$;
comment on function mqpg._fence(text) is 'Internal: fenced look into the ledger of this database';

-- functions/check/_hide_entry.sql
-- Hides an entry of the op-log queue until a point in time: pgmq.set_vt(), which takes a point in time in newer
-- versions of PGMQ only, and whole seconds in others.
-- Locks: the row. Cost: one update.
create function mqpg._hide_entry(msg_id bigint, until timestamptz) returns void
language sql as $$
    update pgmq.q_mqpg_oplog q set vt = _hide_entry.until where q.msg_id = _hide_entry.msg_id
$$;
comment on function mqpg._hide_entry(bigint, timestamptz) is 'Internal: hide an op-log entry for a while';

-- functions/check/_last_reason.sql
-- The reason that was last given in the check-backs of a half message.
-- Locks: none. Cost: one index range of check_log.
create function mqpg._last_reason(message_id bigint) returns text
language sql stable as $$
    select c.reason from mqpg.check_log c
    where c.message_id = _last_reason.message_id and c.reason is not null
    order by c.at desc limit 1
$$;
comment on function mqpg._last_reason(bigint) is 'Internal: last reason of a half''s check-backs';

-- functions/check/_log_check.sql
-- Notes one event of a half's check-back: asked, waited, parked, rearmed, settled.
-- Locks: the new row. Cost: one insert.
create function mqpg._log_check(message_id bigint, event text, by text, reason text default null) returns void
language sql as $$
    insert into mqpg.check_log (message_id, at, event, by, reason)
    values (_log_check.message_id, clock_timestamp(), _log_check.event, _log_check.by, _log_check.reason)
$$;
comment on function mqpg._log_check(bigint, text, text, text) is 'Internal: note an event of a check-back';

-- functions/check/_open_half.sql
-- The half message that a handle names, for calls that answer or steer its check-back.
-- Locks: none. Cost: one row of the commit log. Errors: MQ001 (null), MQ006 (unknown).
create function mqpg._open_half(handle text, out message_id bigint, out producer_group_id int, out decided boolean)
language plpgsql stable as $$
declare
    v_half record;
begin
    if _open_half.handle is null then
        raise exception using errcode = 'MQ001', message = 'handle must not be null';
    end if;
    select h.* into v_half from mqpg._half(_open_half.handle) h;
    if not v_half.known then
        raise exception using errcode = 'MQ006',
            message = format('handle %L names no half message here', left(_open_half.handle, 100));
    end if;
    message_id := v_half.message_id;
    producer_group_id := v_half.producer_group_id;
    decided := mqpg._is_decided(v_half.message_id);
end
$$;
comment on function mqpg._open_half(text) is 'Internal: half message by handle, or an error';

-- functions/check/_park.sql
-- Takes an undecided half out of the op-log queue for an administrator: view half_parked, rearm(), settle().
-- Locks: the caller holds the entry's row. Cost: an insert and the move to the archive.
create function mqpg._park(message_id bigint, msg_id bigint, by text, reason text) returns void
language plpgsql as $$
begin
    perform mqpg._log_check(_park.message_id, 'parked', _park.by, _park.reason);
    perform pgmq.archive('mqpg_oplog', _park.msg_id);
end
$$;
comment on function mqpg._park(bigint, bigint, text, text) is 'Internal: leave a half to an administrator';

-- functions/check/_park_stranger.sql
-- Parks a half that was prepared before its group got the ledger that would be asked: its prepare was open then, so
-- alter_producer_group() could not see it, and a ledger that never heard of it would rule rollback. Returns whether
-- it was one.
-- Locks: the caller holds the entry's row. Cost: none for others.
create function mqpg._park_stranger(producer_group mqpg.producer_group, message_id bigint, msg_id bigint)
returns boolean
language plpgsql as $$
begin
    if _park_stranger.message_id / 1024 > (_park_stranger.producer_group).ledger_since
        or (_park_stranger.producer_group).checker not in ('ledger', 'url') then
        return false;
    end if;
    perform mqpg._park(_park_stranger.message_id, _park_stranger.msg_id, (_park_stranger.producer_group).checker,
        'prepared before its group got this ledger, which knows nothing of it');
    return true;
end
$$;
comment on function mqpg._park_stranger(mqpg.producer_group, bigint, bigint)
    is 'Internal: park a half that is older than its group''s ledger';

-- functions/check/_wait.sql
-- A half whose local transaction is not over: leave it alone for retry_after, or the back-off. The ask before
-- counts no longer as a check if it was answered within its lease.
-- Locks: the caller holds the entry's row. Cost: two lookups, an insert, an update.
create function mqpg._wait(
    message_id bigint, producer_group_id int, msg_id bigint, retry_after interval, in_time boolean, by text,
    reason text
) returns void
language plpgsql as $$
declare
    v_last text;
begin
    select c.event into v_last from mqpg.check_log c
    where c.message_id = _wait.message_id order by c.at desc limit 1;
    perform mqpg._log_check(
        _wait.message_id, case when _wait.in_time and v_last = 'asked' then 'waited' else 'waited late' end, _wait.by,
        _wait.reason);
    perform mqpg._hide_entry(_wait.msg_id, clock_timestamp() + coalesce(
        _wait.retry_after,
        mqpg._back_off(_wait.producer_group_id, (select c.asked from mqpg._checks(_wait.message_id) c))));
end
$$;
comment on function mqpg._wait(bigint, int, bigint, interval, boolean, text, text) is 'Internal: back off from a half';

-- functions/check/check_wait.sql
-- Answers a check with "not yet": the half is handed out again after retry_after (null: the group's check_after,
-- doubled with each ask). Within the lease of due_checks() the ask then does not count; later it only puts the next
-- one off. For a half that was decided meanwhile it does nothing.
-- Locks: the entry's row. Cost: a few lookups, one update, one insert. Errors: MQ001, MQ006, MQ018 (not handed out,
-- or parked).
create function mqpg.check_wait(handle text, retry_after interval default null) returns void
language plpgsql as $$
declare
    v_half record;
    v_entry record;
begin
    select h.* into v_half from mqpg._open_half(check_wait.handle) h;
    if check_wait.retry_after is not null then
        perform mqpg._interval('retry_after', check_wait.retry_after, '0');
    end if;
    if v_half.decided then
        perform mqpg._forget_entry(v_half.message_id);
        return;
    end if;
    select e.* into v_entry from mqpg._entry(v_half.message_id) e;
    if not found then
        raise exception using errcode = 'MQ018',
            message = format('half message %s is not handed out by due_checks()', v_half.message_id),
            hint = 'A parked half is checked again after rearm().';
    end if;
    perform mqpg._wait(v_half.message_id, v_half.producer_group_id, v_entry.msg_id, check_wait.retry_after,
        v_entry.vt > clock_timestamp(), 'due_checks', null);
end
$$;
comment on function mqpg.check_wait(text, interval) is 'Answer a check-back with "not yet"';

-- functions/check/_compensate.sql
-- One pass over overdue halves of the groups that a checker in this database answers for: those with checker
-- `ledger`, or those with checker `function` and that target; null: all of both kinds. New halves get their entries
-- first, but in a pass for functions, which may take long. Returns how many were worked
-- on; those decided meanwhile are cleared away and not counted. Groups take turns of ten in random order, so that
-- one with nothing but open or failing transactions does not slow the others. After a function that hung until the
-- statement_timeout it ends: nothing would end the next one.
-- Locks: the entries' rows, those of others are skipped; the ledger keys and decisions' keys, each waited for at
-- most 50 ms.
-- Cost: an index probe a group; a few lookups, an insert and a decision a half.
-- Errors: MQ001, MQ015 (call it in a READ COMMITTED transaction that has written nothing).
create function mqpg._compensate(max_messages int, checker text default null, checker_target text default null)
returns bigint
language plpgsql as $$
declare
    v_now timestamptz;
    v_group mqpg.producer_group;
    v_entry record;
    v_half record;
    v_done int := 0;
    v_claimed boolean;
begin
    perform mqpg._check_range('max_messages', _compensate.max_messages, 1, 10000);
    if _compensate.checker = 'function' then    -- no new halves: its time would be that of the pass's lock
        perform mqpg._check_own_transaction('compensate');
    else
        perform mqpg._enqueue_halves_now('compensate');
    end if;
    perform mqpg._force_sync();
    v_now := clock_timestamp();    -- one for all rounds, so that no entry is taken twice
    loop
        v_claimed := false;
        for v_group in
            select g.* from mqpg.producer_group g
            -- a probe for each group: as a join it might read the whole queue
            cross join lateral (
                select from pgmq.q_mqpg_oplog q
                where q.message ->> 'producer_group' = g.name and q.vt <= v_now
                limit 1
            ) as overdue
            where g.checker in ('ledger', 'function')
                and (_compensate.checker is null or g.checker = _compensate.checker)
                and (_compensate.checker_target is null or g.checker_target = _compensate.checker_target)
            order by random()
        loop
            exit when v_done >= _compensate.max_messages;
            for v_entry in
                select e.msg_id, e.handle
                from mqpg._claim_entries(
                    v_group.name, least(10, _compensate.max_messages - v_done), interval '30 seconds', v_now) e
            loop
                v_claimed := true;
                select h.* into v_half from mqpg._check_half(v_group, v_entry.msg_id, v_entry.handle) h;
                v_done := v_done + v_half.asked::int;
                if v_half.timed_out then
                    return v_done;
                end if;
            end loop;
        end loop;
        exit when not v_claimed or v_done >= _compensate.max_messages;
    end loop;
    return v_done;
end
$$;
comment on function mqpg._compensate(int, text, text) is 'Internal: one pass over overdue halves of some groups';

-- functions/check/compensate.sql
-- One pass over overdue halves whose producer group has its checker here: the ledger of this database, asked with
-- a fence, or a SQL function (protocol T3). Returns how many were worked on. compensate(1) is the short transaction
-- a handle that a worker wants; with more, fences are held until the end. Where groups have functions, set a
-- statement_timeout: one that hangs is then a check without an answer, and the pass ends with it; the others' turn
-- comes with the next call. New halves enter the op-log queue meanwhile only when the transaction is over.
-- Locks: the entries' rows, those of others are skipped; the ledger keys, each waited for at most 50 ms.
-- Cost: an index probe a group; a few lookups, an insert and a decision a half.
-- Errors: MQ001, MQ015 (call it in a READ COMMITTED transaction that has written nothing).
create function mqpg.compensate(max_messages int default 100) returns bigint
language sql as $$
    select mqpg._compensate(compensate.max_messages)
$$;
comment on function mqpg.compensate(int) is 'One pass over overdue half messages that can be answered in SQL';

-- functions/check/due_checks.sql
-- Hands out overdue half messages of a producer group, to be answered by commit(), rollback() or check_wait()
-- within the lease (protocol T3; an app that polls this needs no other checker). Answer wait where you are not sure
-- that the local transaction is over: this call cannot fence. attempt counts the checks, waits apart. After the
-- group's max_checks the half is parked, or rolled back.
-- Locks: the entries' rows, those of others are skipped. Cost: a few lookups, an update and an insert a half.
-- Errors: MQ001, MQ002, MQ004, MQ015 (call it in a READ COMMITTED transaction that has written nothing).
create function mqpg.due_checks(
    producer_group text, max_messages int default 100, lease interval default '30 s'
) returns table (handle text, topic text, key text, headers jsonb, payload json, attempt int)
language sql as $$
    select d.handle, d.topic, d.key, d.headers, d.payload, d.attempt
    from mqpg._due_halves(due_checks.producer_group, due_checks.max_messages, due_checks.lease) d
$$;
comment on function mqpg.due_checks(text, int, interval) is 'Overdue half messages of a producer group, to be answered';

-- functions/check/rearm.sql
-- Takes a parked half back into the op-log queue, due at once, with all its checks before it again.
-- Locks: the archived entry's row. Cost: a delete and two inserts. Errors: MQ001, MQ006, MQ018 (not parked).
create function mqpg.rearm(handle text) returns void
language plpgsql as $$
declare
    v_half record;
    v_message jsonb;
begin
    select h.* into v_half from mqpg._open_half(rearm.handle) h;
    if not v_half.decided then
        delete from pgmq.a_mqpg_oplog a
        where (a.message ->> 'message_id')::bigint = v_half.message_id
        returning a.message into v_message;
    end if;
    if v_message is null then
        raise exception using errcode = 'MQ018', message = format('half message %s is %s', v_half.message_id,
            case when v_half.decided then 'decided' else 'not parked' end);
    end if;
    perform mqpg._log_check(v_half.message_id, 'rearmed', 'admin');
    perform pgmq.send('mqpg_oplog', v_message);
end
$$;
comment on function mqpg.rearm(text) is 'Check a parked half message again';

-- functions/check/settle.sql
-- An administrator's verdict over a half, parked or open, with the reason kept: commit or rollback. Nothing is
-- asked and nothing fenced: make sure first that the local transaction is over. The outcome says whether it was
-- decided before.
-- Locks: the decision's key, the entry's row. Cost: one decision, one insert. Errors: MQ001 (null, verdict wait).
create function mqpg.settle(handle text, verdict mqpg.verdict, reason text) returns mqpg.outcome
language plpgsql as $$
declare
    v_outcome mqpg.outcome;
    v_message_id bigint;
begin
    if settle.handle is null then
        raise exception using errcode = 'MQ001', message = 'handle must not be null';
    end if;
    if settle.verdict is null or settle.verdict = 'wait' then
        raise exception using errcode = 'MQ001', message = format(
            'verdict must be commit or rollback, not %s', coalesce(settle.verdict::text, 'null'));
    end if;
    if settle.reason is null then
        raise exception using errcode = 'MQ001', message = 'reason must not be null';
    end if;
    v_outcome := mqpg._decide(
        settle.handle, case settle.verdict when 'commit' then 'c' else 'b' end::"char", 'admin', settle.reason);
    if v_outcome = 'unknown' then
        return v_outcome;
    end if;
    select p.message_id into v_message_id from mqpg._parse_handle(settle.handle) p;
    if v_outcome in ('committed', 'rolled_back') then
        perform mqpg._log_check(v_message_id, 'settled', 'admin', settle.reason);
    end if;
    perform mqpg._forget_entry(v_message_id);
    return v_outcome;
end
$$;
comment on function mqpg.settle(text, mqpg.verdict, text) is 'Decide a half message by hand, with the reason kept';

-- functions/reconcile/half_states.sql
-- What became of half messages, in argument order. state: undecided, committed, rolled_back; forgotten, where it was
-- decided so long ago that the decision is dropped; or unknown for whatever names no half message here. An undecided
-- one may be parked. Topic and key are null where the message is gone.
-- Locks: none. Cost: a few index lookups a handle. Errors: MQ001 (nulls).
create function mqpg.half_states(handles text []) returns table (
    handle text, state text, parked boolean, message_id bigint, topic text, key text
)
language plpgsql stable set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off as $$
begin
    if half_states.handles is null or array_position(half_states.handles, null) is not null then
        raise exception using errcode = 'MQ001', message = 'handles must not be null, nor any of them';
    end if;
    return query
    with named as materialized (
        select u.handle, u.place, p.message_id, p.nonce, p.incarnation
        from unnest(half_states.handles) with ordinality as u(handle, place)
        left join lateral mqpg._parse_handle(u.handle) as p
            on p.broker_id = (select b.broker_id from mqpg.broker b)
    )
    select n.handle,
        case
            when o.op = 'c' then 'committed'
            when o.op = 'b' then 'rolled_back'
            when h.topic_id is not null then 'undecided'
            when d.dropped then 'forgotten'
            else 'unknown'
        end,
        h.topic_id is not null and o.op is null and exists (
            select from pgmq.a_mqpg_oplog a where (a.message ->> 'message_id')::bigint = n.message_id),
        case when h.topic_id is not null or d.dropped then n.message_id end, t.name, h.key
    from named n
    left join lateral (
        select m.topic_id, m.key
        from mqpg._message(n.message_id) m
        join mqpg._half_row(n.message_id) r on true
        where m.nonce = n.nonce and r.incarnation = n.incarnation
    ) as h on true
    cross join lateral (
        select h.topic_id is null and exists (
            select from mqpg.segment s
            where s.family = 'log' and s.body_dropped_at is not null
                and n.message_id >= s.lower_bound::bigint * 1024 and n.message_id < s.upper_bound::bigint * 1024
        ) as dropped
    ) as d
    left join mqpg.op_log o on o.message_id = n.message_id and o.stage = 0 and (h.topic_id is not null or d.dropped)
    left join mqpg.topic t on t.topic_id = h.topic_id
    order by n.place;
end
$$;
comment on function mqpg.half_states(text [])
    is 'What became of half messages: undecided, committed, rolled_back, forgotten, unknown';

-- functions/reconcile/_unsettled.sql
-- Ledger rows of this database whose local transaction committed longer ago than older_than and whose half no commit
-- decided: the set difference of protocol T6. state: undecided, rolled_back (the ledger is contradicted: somebody
-- settled it by hand) or absent (no such half here: a restore lost it); undecided ones come first, in the order of
-- ids. An open local transaction's row is not visible, a young one is left to its producer, and what retention dropped
-- is left out, so nothing is listed by mistake.
-- Locks: none. Cost: the ledger once, an index lookup in op_log a row, a few for each hit.
create function mqpg._unsettled(older_than interval, max_messages int)
returns table (handle text, message_id bigint, topic text, key text, state text)
language plpgsql stable as $$
begin
    return query
    with local as (
        select l.handle, case
            when l.handle ~ '^[0-9a-f]{12}\.[1-9][0-9]{0,8}\.[1-9][0-9]{0,17}\.[0-9a-f]{32}$'
                then split_part(l.handle, '.', 3)::bigint
        end as id
        from mqpg.ledger l
        where l.entry = 'local' and l.at < clock_timestamp() - _unsettled.older_than
            and split_part(l.handle, '.', 1) = (select b.broker_id from mqpg.broker b)
    ),
    missing as materialized (
        select array_agg(l.handle) as handles from local l
        where l.id is not null
            and not exists (select from mqpg.op_log o where o.message_id = l.id and o.stage = 0 and o.op = 'c')
    )
    select s.handle, coalesce(s.message_id, split_part(s.handle, '.', 3)::bigint), s.topic, s.key,
        case s.state when 'unknown' then 'absent' else s.state end
    from missing m
    cross join lateral mqpg.half_states(coalesce(m.handles, '{}')) as s
    where s.state in ('undecided', 'rolled_back', 'unknown')
    order by s.state <> 'undecided', s.message_id, s.handle
    limit _unsettled.max_messages;
end
$$;
comment on function mqpg._unsettled(interval, int) is 'Internal: committed ledger rows without a commit decision';

-- functions/reconcile/reconcile.sql
-- The set-difference plan for producers without check-back (protocol T6), for the ledger in this database: lists what
-- committed locally longer ago than older_than and was never committed here, looks each up, and commits it unless
-- settle is false. state: undecided, rolled_back, absent; outcome: what the commit came to, null where none was tried
-- (a decision stands, a lost half cannot be committed: these are for people to look at). Any number may run at once,
-- for a decision is made once and the outcome says by whom; one that was rolled back is repeated by the next.
-- Locks: the decisions' keys in ascending order; waits for others under way. Cost: an anti-join of the ledger and the
-- op log, a decision for each hit. Errors: MQ001.
create function mqpg.reconcile(
    older_than interval default '1 minute', max_messages int default 1000, settle boolean default true
) returns table (handle text, message_id bigint, topic text, key text, state text, outcome mqpg.outcome)
language plpgsql as $$
begin
    perform mqpg._interval('older_than', reconcile.older_than, '0');
    perform mqpg._check_range('max_messages', reconcile.max_messages, 1, 100000);
    if reconcile.settle is null then
        raise exception using errcode = 'MQ001', message = 'settle must be true or false';
    end if;
    for handle, message_id, topic, key, state in
        select u.* from mqpg._unsettled(reconcile.older_than, reconcile.max_messages) u
    loop
        outcome := null;
        if reconcile.settle and state = 'undecided' then
            outcome := mqpg._decide(handle, 'c', 'checker', 'reconcile: the ledger says committed');
            perform mqpg._forget_entry(message_id);
        end if;
        return next;
    end loop;
end
$$;
comment on function mqpg.reconcile(interval, int, boolean) is
    'Find and commit what the ledger of this database committed and the broker never heard of';

-- functions/keep/_is_open.sql
-- Whether a handle names a half message that is here and not decided.
-- Locks: none. Cost: two index lookups.
create function mqpg._is_open(handle text) returns boolean
language plpgsql stable as $$
declare
    v_half record;
begin
    select h.* into v_half from mqpg._half(_is_open.handle) h;
    return v_half.known and not mqpg._is_decided(v_half.message_id);
end
$$;
comment on function mqpg._is_open(text) is 'Internal: whether a handle names an undecided half';

-- functions/keep/_carry_cursor.sql
-- Carries the newest state of one queue of one subscription into a newer slot: a closing row in the old slot
-- (its version makes a writer that still looks at the old state fail) and the same state in the new one.
-- False where the queue is busy; the next pass tries again.
-- Locks: the queue's cursor lock, tried only. Cost: one lookup, two inserts.
create function mqpg._carry_cursor(subscription_id int, queue_id int, slot int) returns boolean
language plpgsql as $$
declare
    v_cursor mqpg.cursor;
begin
    if not pg_try_advisory_xact_lock(1836150833, _carry_cursor.subscription_id * 1024 + _carry_cursor.queue_id + 1) then
        return false;
    end if;
    select c.* into v_cursor from mqpg.cursor c
    where c.subscription_id = _carry_cursor.subscription_id and c.queue_id = _carry_cursor.queue_id
    order by c.version desc limit 1;
    if not found or v_cursor.slot >= _carry_cursor.slot then
        return true;
    end if;
    insert into mqpg.cursor (
        version, committed, claimed, at, epoch, subscription_id, slot, queue_id, action, owner, claims)
    values
    (v_cursor.version + 1, v_cursor.committed, v_cursor.claimed, clock_timestamp(), null, v_cursor.subscription_id,
        v_cursor.slot, v_cursor.queue_id, 'c', v_cursor.owner, v_cursor.claims),
    (v_cursor.version + 2, v_cursor.committed, v_cursor.claimed, clock_timestamp(), null, v_cursor.subscription_id,
        _carry_cursor.slot, v_cursor.queue_id, 'k', v_cursor.owner, v_cursor.claims);
    return true;
end
$$;
comment on function mqpg._carry_cursor(int, int, int) is 'Internal: carry one cursor into a newer slot';

-- functions/keep/_close_segments.sql
-- Notes which segments nothing is written into any more.
-- log: everybody who could hold one of its ids is over (older than opened_xid of the next segment) and what
-- they wrote has its offsets: the appender's floor is above the end, or nothing is left to append.
-- tick: the newest tick and half tick are behind it. delayed, dedup: their time is over, with a slot to spare.
-- Cursor slots are closed where they are carried.
-- Locks: the caller holds the keeper's. Cost: a few lookups; one index range for a log segment.
create function mqpg._close_segments()
returns table (action text, family text, segment_no bigint, detail text)
language plpgsql as $$
declare
    v_segment mqpg.segment;
    v_tick mqpg.tick;
    v_half_tick_id bigint;
    v_slot bigint := mqpg._dedup_slot();
begin
    select t.* into v_tick from mqpg.tick t order by t.tick_id desc limit 1;
    select max(h.half_tick_id) into v_half_tick_id from mqpg.half_tick h;
    for v_segment in
        select s.* from mqpg.segment s
        where s.family = 'log' and s.closed_at is null and (
            select n.opened_xid from mqpg.segment n
            where n.family = 'log' and n.segment_no > s.segment_no order by n.segment_no limit 1
        ) < pg_snapshot_xmin(pg_current_snapshot())
        order by s.segment_no
    loop
        if coalesce(v_tick.floor_id, 0) < v_segment.upper_bound::bigint
            and exists (
                select from mqpg.commit_log l
                where l.kind = 'n' and l.batch_id >= v_segment.lower_bound::bigint
                    and l.batch_id < v_segment.upper_bound::bigint
                    and (v_tick.snapshot is null or l.xid >= pg_snapshot_xmin(v_tick.snapshot))
                    and (v_tick.snapshot is null or not pg_visible_in_snapshot(l.xid, v_tick.snapshot))) then
            continue;
        end if;
        update mqpg.segment s set closed_at = clock_timestamp()
        where s.family = 'log' and s.segment_no = v_segment.segment_no;
        return query select 'closed', 'log', v_segment.segment_no, 'all of it has its offsets';
    end loop;
    return query
    update mqpg.segment s set closed_at = clock_timestamp()
    where s.closed_at is null and case s.family
        when 'tick' then
            v_tick.tick_id >= s.upper_bound::bigint
            and coalesce(v_half_tick_id >= s.upper_bound::bigint, true)
        when 'delayed' then
            s.upper_bound::timestamptz < clock_timestamp() - mqpg._setting('delayed_slot')::interval
        when 'dedup' then
            -- behind the current slot, or out of reach since dedup_window was changed
            s.upper_bound::bigint < v_slot
            or s.lower_bound::bigint > v_slot + 12 * (mqpg._setting('segments_ahead')::int + 3)
        else false
    end
    returning 'closed', s.family, s.segment_no, 'nothing is written into it any more';
end
$$;
comment on function mqpg._close_segments() is 'Internal: note which segments are complete';

-- functions/keep/_drop_decisions.sql
-- Drops what a log segment leaves behind when its bodies are gone: op_log, then check_log, one a call. They stay
-- `op_log_keep` longer, and as long as a decision over one of their ids may still be written: an undecided
-- message in held, a delayed one that is not due yet (the appender writes op `due` even where the topic is
-- gone), or a commit that is not appended.
-- With op_log nobody knows any more what became of the halves that are still in held: rolled back ones go, and
-- committed ones (dead letters, say) stay as messages, so that a repeated decision is answered with unknown.
-- Locks: ACCESS EXCLUSIVE on partition and parent, tried for 100 ms. Cost: a few index ranges.
create function mqpg._drop_decisions(no bigint)
returns table (action text, family text, segment_no bigint, detail text)
language plpgsql as $$
declare
    v_segment mqpg.segment;
    v_tick mqpg.tick;
    v_from bigint;
    v_to bigint;
    v_parent text;
begin
    select s.* into v_segment from mqpg.segment s
    where s.family = 'log' and s.segment_no = _drop_decisions.no;
    v_from := v_segment.lower_bound::bigint * 1024;
    v_to := v_segment.upper_bound::bigint * 1024;
    select t.* into v_tick from mqpg.tick t order by t.tick_id desc limit 1;
    if exists (
        select from mqpg.held h
        where h.message_id >= v_from and h.message_id < v_to and h.kind = 'h' and not exists (
            select from mqpg.op_log o
            where o.message_id = h.message_id and o.stage = 0 and o.message_id >= v_from and o.message_id < v_to)
    ) or exists (
        select from mqpg.delayed d
        where d.subscription_id = 0 and d.first_id >= v_from - 1023 and d.first_id < v_to
            and (v_tick.tick_id is null or d.visible_at > v_tick.due_until
                or not pg_visible_in_snapshot(d.xid, v_tick.snapshot))
    ) or exists (
        select from mqpg.op_log o
        where o.message_id >= v_from and o.message_id < v_to and o.op = 'c' and o.visible_at is null
            and (v_tick.tick_id is null or not pg_visible_in_snapshot(o.xid, v_tick.snapshot))
    ) then
        return query select 'pinned', 'log', v_segment.segment_no, 'op_log: a message of it may still be decided';
        return;
    end if;
    v_parent := case
        when to_regclass('mqpg.op_log_' || v_segment.segment_no) is not null then 'op_log' else 'check_log'
    end;
    begin
        if v_parent = 'op_log' then
            delete from mqpg.held h using mqpg.op_log o
            where h.message_id >= v_from and h.message_id < v_to and h.kind = 'h'
                and o.message_id = h.message_id and o.message_id >= v_from and o.message_id < v_to
                and o.stage = 0 and (o.op = 'b' or h.relay);
            update mqpg.held h set kind = 'n', nonce = null,
                payload = coalesce((select f.payload from mqpg.held f where f.message_id = o.deliver_id), h.payload)
            from mqpg.op_log o
            where h.message_id >= v_from and h.message_id < v_to and h.kind = 'h'
                and o.message_id = h.message_id and o.message_id >= v_from and o.message_id < v_to and o.stage = 0;
        end if;
        if not mqpg._drop_partition(v_parent, v_segment.segment_no) then
            raise lock_not_available;
        end if;
    exception when lock_not_available then
        return query
        select 'blocked', 'log', v_segment.segment_no, v_parent || ' is in use; tried again by the next pass';
        return;
    end;
    if v_parent = 'check_log' then
        update mqpg.segment s set dropped_at = clock_timestamp()
        where s.family = 'log' and s.segment_no = v_segment.segment_no;
    end if;
    return query select 'dropped', 'log', v_segment.segment_no, v_parent || '_' || v_segment.segment_no;
end
$$;
comment on function mqpg._drop_decisions(bigint) is 'Internal: drop old decisions and checks of a segment';

-- functions/keep/_drop_log.sql
-- Drops one expired log segment's bodies: what must stay readable (I11) is copied into held first, all in one
-- subtransaction, so that nothing is copied where the drop has to wait. More survivors than `held_limit` pin
-- the segment, and the report says which. Under the partition's lock the rule is looked at again in a new
-- statement; of consume_queue only what is younger than the first look, for the rest cannot have changed.
-- Locks: ACCESS EXCLUSIVE on the partition, then on commit_log, each tried for 100 ms. Cost: see _survivors().
create function mqpg._drop_log(no bigint)
returns table (action text, family text, segment_no bigint, detail text)
language plpgsql as $$
declare
    v_segment mqpg.segment;
    v_limit bigint := mqpg._setting('held_limit');
    v_from bigint;
    v_to bigint;
    v_tick_id bigint;
    v_ids bigint [];
    v_why text;
    v_held bigint;
    v_most bigint := v_limit * 4 + 1;   -- a look at so many rows shows most messages that are too many
    v_rows bigint;
begin
    select s.* into v_segment from mqpg.segment s
    where s.family = 'log' and s.segment_no = _drop_log.no;
    v_from := v_segment.lower_bound::bigint * 1024;
    v_to := v_segment.upper_bound::bigint * 1024;
    select coalesce(max(t.tick_id), 0) into v_tick_id from mqpg.tick t;
    loop
        with seen as materialized (
            select v.message_id, min(v.why) as why, count(*) as n
            from mqpg._survivors(v_from, v_to, -1, v_most) v group by 1
        )
        select array_agg(s.message_id), sum(s.n), (
            select string_agg(format('%s %s', w.n, w.why), ', ' order by w.n desc)
            from (select x.why, count(*) as n from seen x group by 1) w)
        into v_ids, v_rows, v_why from seen s;
        exit when v_most is null or v_rows is null or v_rows < v_most or cardinality(v_ids) > v_limit;
        v_most := null;    -- the same few, many times (dead letters of many subscriptions): who else is there?
    end loop;
    if cardinality(v_ids) > v_limit then
        return query select 'pinned', 'log', v_segment.segment_no, format(
            'more than held_limit = %s messages must stay readable: %s', v_limit, v_why);
        return;
    end if;
    begin
        v_held := mqpg._hold(v_ids);
        if not mqpg._lock_partition('commit_log', v_segment.segment_no) then
            raise lock_not_available;
        end if;
        if exists (
            select from mqpg._survivors(v_from, v_to, v_tick_id, null) v
            where not exists (select from mqpg.held h where h.message_id = v.message_id)
        ) then
            raise lock_not_available;
        end if;
        -- a statement of its own: what reads a table cannot drop it
        if not mqpg._drop_partition('commit_log', v_segment.segment_no) then
            raise lock_not_available;
        end if;
        update mqpg.segment s set body_dropped_at = clock_timestamp()
        where s.family = 'log' and s.segment_no = v_segment.segment_no;
    exception when lock_not_available then
        return query
        select 'blocked', 'log', v_segment.segment_no, 'commit_log is in use; tried again by the next pass';
        return;
    end;
    return query select 'dropped', 'log', v_segment.segment_no, format(
        'commit_log_%s%s', v_segment.segment_no, coalesce(format(', %s messages held: %s', v_held, v_why), ''));
end
$$;
comment on function mqpg._drop_log(bigint) is 'Internal: drop the bodies of an expired segment under rule I11';

-- functions/keep/_drop_partition.sql
-- Drops one partition, or says false where somebody is using the table: DROP needs a moment without any open
-- transaction on the parent, and while it waits everybody else queues behind it; so it waits 100 ms at most.
-- Locks: ACCESS EXCLUSIVE on partition and parent, till commit. Cost: DDL.
create function mqpg._drop_partition(parent text, segment_no bigint) returns boolean
language plpgsql
set lock_timeout = '100ms' as $$
begin
    execute format('drop table if exists mqpg.%I', _drop_partition.parent || '_' || _drop_partition.segment_no);
    return true;
exception when lock_not_available then
    return false;
end
$$;
comment on function mqpg._drop_partition(text, bigint) is 'Internal: drop a partition unless it is in use';

-- functions/keep/_drop_segment.sql
-- Drops the next table of one closed segment if its time has come, and says so, or why it cannot be.
-- Locks: see _drop_log(), _drop_decisions(), _drop_ticks(), _drop_slot(). Cost: theirs.
create function mqpg._drop_segment(segment mqpg.segment)
returns table (action text, family text, segment_no bigint, detail text)
language plpgsql as $$
begin
    if _drop_segment.segment.family = 'tick' then
        if _drop_segment.segment.body_dropped_at is null then
            if not mqpg._expired(_drop_segment.segment) then
                return;
            end if;
            return query select l.* from mqpg._lose(_drop_segment.segment) l;
            if found then
                return;     -- the next pass drops, after this one is committed
            end if;
        end if;
        if _drop_segment.segment.segment_no = (
            select min(s.segment_no) from mqpg.segment s where s.family = 'tick' and s.dropped_at is null
        ) then
            return query select d.* from mqpg._drop_ticks(_drop_segment.segment.segment_no) d;
        end if;
        if _drop_segment.segment.body_dropped_at is null and to_regclass(
            'mqpg.consume_queue_' || _drop_segment.segment.segment_no) is not null then
            return query select r.* from mqpg._raise_oldest(_drop_segment.segment) r;
        end if;
    elsif _drop_segment.segment.family <> 'log' then
        -- delayed rows tell find_by_key() and trace() where a message went, so they stay as long as messages do
        if _drop_segment.segment.family <> 'delayed' or not exists (
            select from mqpg.topic t where _drop_segment.segment.closed_at + t.retention > clock_timestamp()
        ) then
            return query
            select d.* from mqpg._drop_slot(_drop_segment.segment.family, _drop_segment.segment.segment_no) d;
        end if;
    elsif _drop_segment.segment.body_dropped_at is null then
        if mqpg._expired(_drop_segment.segment) then
            return query select d.* from mqpg._drop_log(_drop_segment.segment.segment_no) d;
        end if;
    elsif _drop_segment.segment.body_dropped_at <= clock_timestamp() - mqpg._setting('op_log_keep')::interval then
        return query select d.* from mqpg._drop_decisions(_drop_segment.segment.segment_no) d;
    end if;
end
$$;
comment on function mqpg._drop_segment(mqpg.segment) is 'Internal: drop the next table of a closed segment';

-- functions/keep/_drop_segments.sql
-- Drops at most one table of one segment, for a drop holds everybody up until commit, and tells what cannot be
-- dropped and why: oldest ticks, then expired bodies, old decisions, closed slots.
-- Locks: see _drop_log(), _drop_decisions(), _drop_ticks(), _drop_slot(). Cost: theirs.
create function mqpg._drop_segments()
returns table (action text, family text, segment_no bigint, detail text)
language plpgsql as $$
declare
    v_segment mqpg.segment;
begin
    for v_segment in
        select s.* from mqpg.segment s
        where s.closed_at is not null and s.dropped_at is null
        order by array_position(array['tick', 'log', 'cursor', 'delayed', 'dedup'], s.family), s.segment_no
    loop
        for action, family, segment_no, detail in select d.* from mqpg._drop_segment(v_segment) d loop
            return next;
            if action = 'dropped' then
                return;
            end if;
        end loop;
    end loop;
end
$$;
comment on function mqpg._drop_segments() is 'Internal: drop one table that nobody needs any more';

-- functions/keep/_drop_slot.sql
-- Drops one closed slot of cursor, delayed or dedup, after a last look under its lock that nothing needs it:
-- a cursor not carried, a delayed message or retry not appended. Dedup ids need only their time to be over.
-- Locks: ACCESS EXCLUSIVE on partition and parent, tried for 100 ms. Cost: reads a delayed slot once; two
-- lookups for each queue of each subscription.
create function mqpg._drop_slot(kind text, no bigint)
returns table (action text, family text, segment_no bigint, detail text)
language plpgsql as $$
declare
    v_segment mqpg.segment;
    v_tick mqpg.tick;
    v_pins text;
begin
    select s.* into v_segment from mqpg.segment s
    where s.family = _drop_slot.kind and s.segment_no = _drop_slot.no;
    select t.* into v_tick from mqpg.tick t order by t.tick_id desc limit 1;
    begin
        if not mqpg._lock_partition(v_segment.family, v_segment.segment_no) then
            raise lock_not_available;
        end if;
        if v_segment.family = 'delayed' then
            select format('%s rows are not appended yet', count(*)) into v_pins
            from mqpg.delayed d
            where d.written_at >= v_segment.lower_bound::timestamptz
                and d.written_at < v_segment.upper_bound::timestamptz
                and (v_tick.tick_id is null or d.visible_at > v_tick.due_until
                    or not pg_visible_in_snapshot(d.xid, v_tick.snapshot))
            having count(*) > 0;
        elsif v_segment.family = 'cursor' then
            select format('%s queues are not carried yet', count(*)) into v_pins
            from mqpg.subscription s
            join mqpg.topic t on t.topic_id = s.topic_id
            cross join lateral generate_series(-1, t.queues - 1) as q(queue_id)
            cross join lateral (
                select c.slot from mqpg.cursor c
                where c.subscription_id = s.subscription_id and c.queue_id = q.queue_id
                order by c.version desc limit 1
            ) as k
            where k.slot < v_segment.upper_bound::int
            having count(*) > 0;
        end if;
        if v_pins is null then
            if not mqpg._drop_partition(v_segment.family, v_segment.segment_no) then
                raise lock_not_available;
            end if;
            update mqpg.segment s set dropped_at = clock_timestamp()
            where s.family = v_segment.family and s.segment_no = v_segment.segment_no;
        end if;
    exception when lock_not_available then
        return query select 'blocked', v_segment.family, v_segment.segment_no,
            v_segment.family || ' is in use; tried again by the next pass';
        return;
    end;
    return query select case when v_pins is null then 'dropped' else 'pinned' end, v_segment.family,
        v_segment.segment_no, coalesce(v_pins, v_segment.family || '_' || v_segment.segment_no);
end
$$;
comment on function mqpg._drop_slot(text, bigint) is 'Internal: drop a closed slot of cursor, delayed or dedup';

-- functions/keep/_drop_ticks.sql
-- Drops one table of the oldest expired tick segment: consume_queue first, then tick, then half_tick. Pinned while a
-- subscription still needs an offset in it. In order only: a queue's oldest offset is that of its oldest row,
-- and from there on every message must be there. With the last table goes what the small tables need no more.
-- Locks: the appender's, tried (its look for the tail must see the table or the note); the queues' tails;
-- ACCESS EXCLUSIVE on partition and parent, tried for 100 ms. Cost: the segment's consume_queue is read once.
create function mqpg._drop_ticks(no bigint)
returns table (action text, family text, segment_no bigint, detail text)
language plpgsql as $$
declare
    v_segment mqpg.segment;
    v_from bigint;
    v_to bigint;
    v_parent text;
    v_pins text;
begin
    select s.* into v_segment from mqpg.segment s
    where s.family = 'tick' and s.segment_no = _drop_ticks.no;
    v_from := v_segment.lower_bound;
    v_to := v_segment.upper_bound;
    select f.parent into v_parent from mqpg._family_tables('tick') f
    where to_regclass(format('mqpg.%s_%s', f.parent, v_segment.segment_no)) is not null limit 1;
    if v_parent = 'consume_queue' then
        select string_agg(format('%s has %s %s at %s of %s', u.consumer_group || coalesce(' / ' || nullif(u.member, ''), ''),
            u.topic, case when u.queue_id = -1 then 'retries' else 'queue ' || u.queue_id end, u.committed,
            u.next_offset), '; ')
        into v_pins from (select p.* from mqpg._undelivered(v_from, v_to) p limit 5) u;
        if v_pins is not null then
            return query select 'pinned', 'tick', v_segment.segment_no, v_pins;
            return;
        end if;
    end if;
    if v_parent = 'half_tick' then
        return query select p.* from mqpg._purge() p;
    end if;
    begin
        if not pg_try_advisory_xact_lock(1836150834, 0) then
            raise lock_not_available;
        end if;
        if v_parent = 'consume_queue' then
            perform mqpg._note_tails(v_from, v_to);
            if not mqpg._lock_partition(v_parent, v_segment.segment_no)
                or exists (select from mqpg._undelivered(v_from, v_to)) then
                raise lock_not_available;
            end if;
        end if;
        if not mqpg._drop_partition(v_parent, v_segment.segment_no) then
            raise lock_not_available;
        end if;
    exception when lock_not_available then
        return query
        select 'blocked', 'tick', v_segment.segment_no, v_parent || ' is in use; tried again by the next pass';
        return;
    end;
    update mqpg.segment s set
        body_dropped_at = coalesce(s.body_dropped_at, clock_timestamp()),
        dropped_at = case when v_parent = 'half_tick' then clock_timestamp() end
    where s.family = 'tick' and s.segment_no = v_segment.segment_no;
    return query select 'dropped', 'tick', v_segment.segment_no, v_parent || '_' || v_segment.segment_no;
end
$$;
comment on function mqpg._drop_ticks(bigint) is 'Internal: drop an expired tick segment nobody needs';

-- functions/keep/_expired.sql
-- Whether the longest retention of a topic with messages in a closed segment has passed.
-- Locks: none. Cost: none where all retentions or none have passed; else tick: one index lookup a topic; log:
-- reads the segment's rows until one of a topic that keeps longer is found.
create function mqpg._expired(segment mqpg.segment) returns boolean
language plpgsql stable as $$
declare
    v_longer int [];
begin
    if not exists (
        select from mqpg.topic t where _expired.segment.closed_at + t.retention > clock_timestamp()
    ) then
        return true;
    end if;
    if not exists (
        select from mqpg.topic t where _expired.segment.closed_at + t.retention <= clock_timestamp()
    ) then
        return false;
    end if;
    v_longer := array(
        select t.topic_id from mqpg.topic t where _expired.segment.closed_at + t.retention > clock_timestamp());
    if _expired.segment.family = 'tick' then
        return not exists (
            select from unnest(v_longer) as t(topic_id)
            where exists (
                select from mqpg.consume_queue c
                where c.topic_id = t.topic_id and c.tick_id >= _expired.segment.lower_bound::bigint
                    and c.tick_id < _expired.segment.upper_bound::bigint));
    end if;
    return not exists (
        select from mqpg.commit_log l
        where l.topic_id = any(v_longer) and l.batch_id >= _expired.segment.lower_bound::bigint
            and l.batch_id < _expired.segment.upper_bound::bigint);
end
$$;
comment on function mqpg._expired(mqpg.segment) is 'Internal: whether a segment is past its retention';

-- functions/keep/_family_tables.sql
-- The partitioned tables of a segment family and how their bounds follow from the segment's: decisions and
-- checks are kept by message id, which is batch id * 1024.
-- Locks: none. Cost: none to speak of.
create function mqpg._family_tables(family text) returns table (parent text, per_unit int)
language sql immutable as $$
    select f.parent, f.per_unit
    from (values
        ('log', 1, 'commit_log', 1), ('log', 2, 'op_log', 1024), ('log', 3, 'check_log', 1024),
        ('tick', 1, 'consume_queue', 1), ('tick', 2, 'tick', 1), ('tick', 3, 'half_tick', 1),
        ('cursor', 1, 'cursor', 1), ('delayed', 1, 'delayed', 1), ('dedup', 1, 'dedup', 1)
    ) as f(family, place, parent, per_unit)
    where f.family = _family_tables.family
    order by f.place
$$;
comment on function mqpg._family_tables(text) is 'Internal: tables of a segment family';

-- functions/keep/_hold.sql
-- Copies messages out of commit_log into held, one row each; those already there are left as they are.
-- Locks: the new rows. Cost: each record batch concerned is read and unnested once.
create function mqpg._hold(message_ids bigint []) returns bigint
language plpgsql as $$
declare
    v_rows bigint;
begin
    insert into mqpg.held (
        message_id, xid, born_at, topic_id, producer_group_id, incarnation, queue_id, kind, nonce, check_at, delay, key, tag,
        headers, payload, relay)
    select (l.batch_id << 10) + u.place - 1, l.xid, l.born_at, l.topic_id, l.producer_group_id, l.incarnation, l.queue_id, l.kind,
        l.nonce, l.check_at, l.delay, u.key, u.tag, u.headers, u.payload, l.relay
    from (
        select w.message_id >> 10 as batch_id, array_agg(w.message_id) as ids
        from unnest(_hold.message_ids) as w(message_id) group by 1
    ) as b
    join mqpg.commit_log l on l.batch_id = b.batch_id
    cross join lateral unnest(l.payloads, l.keys, l.tags, l.headers)
        with ordinality as u(payload, key, tag, headers, place)
    where (l.batch_id << 10) + u.place - 1 = any(b.ids)
        and l.batch_id >= (select min(w.message_id) >> 10 from unnest(_hold.message_ids) as w(message_id))
        and l.batch_id <= (select max(w.message_id) >> 10 from unnest(_hold.message_ids) as w(message_id))
    on conflict (message_id) do nothing;
    get diagnostics v_rows = row_count;
    return v_rows;
end
$$;
comment on function mqpg._hold(bigint []) is 'Internal: copy survivors into held';

-- functions/keep/_lock_partition.sql
-- Locks one partition against everybody, for a last look before it is dropped; false where it is in use.
-- Locks: ACCESS EXCLUSIVE on the partition, till commit, waited for at most 100 ms. Cost: none.
create function mqpg._lock_partition(parent text, segment_no bigint) returns boolean
language plpgsql
set lock_timeout = '100ms' as $$
begin
    execute format('lock table mqpg.%I in access exclusive mode',
        _lock_partition.parent || '_' || _lock_partition.segment_no);
    return true;
exception when lock_not_available then
    return false;
end
$$;
comment on function mqpg._lock_partition(text, bigint) is 'Internal: lock a partition unless it is in use';

-- functions/keep/_lose.sql
-- The policies of topics, where a group pins a closed tick segment: lose_after, what a group left unread so long after
-- the segment was closed; lose_over, where the group's unread part of closed segments is over so many bytes. The
-- group's position moves to the end of its part of the segment. Nobody loses silently: the table jump (and the view
-- losses) has the offsets, a row of keep() and a warning say it, and channel mqpg_loss is notified. A queue in use is
-- left for the next pass.
-- Locks: each queue's cursor lock, tried only. Cost: see _undelivered(); with lose_over _stored_bytes() for each closed
-- segment that the group has not read.
create function mqpg._lose(segment mqpg.segment)
returns table (action text, family text, segment_no bigint, detail text)
language plpgsql as $$
declare
    v_from bigint := (_lose.segment).lower_bound::bigint;
    v_to bigint := (_lose.segment).upper_bound::bigint;
    v_pin record;
    v_why text;
    v_lost bigint;
begin
    for v_pin in
        select u.*, t.lose_after, t.lose_over
        from mqpg._undelivered(v_from, v_to) u
        join mqpg.topic t on t.topic_id = u.topic_id
        where t.lose_after is not null or t.lose_over is not null
    loop
        v_why := case
            when (_lose.segment).closed_at + v_pin.lose_after <= clock_timestamp() then 'age'
            when v_pin.lose_over is not null and (
                select sum(p.bytes) from mqpg._pins(v_pin.subscription_id) p) > v_pin.lose_over then 'size'
        end;
        continue when v_why is null;
        continue when not pg_try_advisory_xact_lock(
            1836150833, v_pin.subscription_id * 1024 + v_pin.queue_id + 1);
        v_lost := mqpg._move_cursor(
            (select s from mqpg.subscription s where s.subscription_id = v_pin.subscription_id), v_pin.queue_id,
            v_pin.next_offset, v_why);
        detail := format('%s lost %s messages of %s %s before offset %s by policy (%s)',
            v_pin.consumer_group || coalesce(' / ' || nullif(v_pin.member, ''), ''), v_lost, v_pin.topic,
            case when v_pin.queue_id = -1 then 'retries' else 'queue ' || v_pin.queue_id end, v_pin.next_offset,
            v_why);
        perform pg_notify('mqpg_loss', jsonb_build_object('topic', v_pin.topic, 'consumer_group',
            v_pin.consumer_group, 'member', nullif(v_pin.member, ''), 'queue_id', v_pin.queue_id, 'messages', v_lost,
            'before', v_pin.next_offset, 'why', v_why)::text);
        raise warning '%', detail;
        action := 'lost';
        family := 'tick';
        segment_no := (_lose.segment).segment_no;
        return next;
    end loop;
end
$$;
comment on function mqpg._lose(mqpg.segment) is 'Internal: free a segment of groups that do not read, by policy';

-- functions/keep/_make_partition.sql
-- Makes one empty partition: CREATE TABLE LIKE, then ATTACH, which lets senders and receivers go on (CREATE
-- TABLE … PARTITION OF would queue behind one open reader and stop everybody). An empty table needs no CHECK:
-- there is nothing for ATTACH to scan. The indexes come by ATTACH.
-- Locks: SHARE UPDATE EXCLUSIVE on the parent, waited for at most 200 ms (55P03). Cost: DDL.
create function mqpg._make_partition(parent text, segment_no bigint, lower_bound text, upper_bound text)
returns void
language plpgsql
set lock_timeout = '200ms' as $$
declare
    v_name text := _make_partition.parent || '_' || _make_partition.segment_no;
begin
    execute format(
        'create table mqpg.%I (like mqpg.%I including defaults including constraints including storage'
        ' including compression)', v_name, _make_partition.parent);
    execute format('alter table mqpg.%I attach partition mqpg.%I for values from (%L) to (%L)',
        _make_partition.parent, v_name, _make_partition.lower_bound, _make_partition.upper_bound);
end
$$;
comment on function mqpg._make_partition(text, bigint, text, text) is 'Internal: make an empty partition';

-- functions/keep/_make_segment.sql
-- Makes the partitions of one segment and its row.
-- Locks: as _make_partition(). Cost: DDL for each table of the family. Errors: 55P03.
create function mqpg._make_segment(family text, lower_bound text, upper_bound text, opened boolean)
returns mqpg.segment
language plpgsql as $$
declare
    v_segment mqpg.segment;
    v_table record;
begin
    insert into mqpg.segment (family, segment_no, lower_bound, upper_bound, opened_at)
    select _make_segment.family, coalesce(max(s.segment_no), 0) + 1, _make_segment.lower_bound,
        _make_segment.upper_bound, case when _make_segment.opened then clock_timestamp() end
    from mqpg.segment s where s.family = _make_segment.family
    returning * into v_segment;
    for v_table in select f.parent, f.per_unit from mqpg._family_tables(_make_segment.family) f loop
        if v_table.per_unit = 1 then
            perform mqpg._make_partition(
                v_table.parent, v_segment.segment_no, v_segment.lower_bound, v_segment.upper_bound);
        else
            perform mqpg._make_partition(v_table.parent, v_segment.segment_no,
                (v_segment.lower_bound::bigint * v_table.per_unit)::text,
                (v_segment.upper_bound::bigint * v_table.per_unit)::text);
        end if;
    end loop;
    return v_segment;
end
$$;
comment on function mqpg._make_segment(text, text, text, boolean) is 'Internal: make a segment';

-- functions/keep/_make_segments.sql
-- Makes segments until every family has enough, or `most` are made. The migration calls it, so that a fresh
-- install works without any worker; keep() does, and an append pass may (most => 1).
-- Locks: the keeper's (skipped where another one is at it); SHARE UPDATE EXCLUSIVE on the parents, in which
-- nobody reads or writes waits; a parent that is busy is left for the next time. Cost: a few lookups, then DDL.
create function mqpg._make_segments(most int default 100) returns setof mqpg.segment
language plpgsql as $$
declare
    v_family text;
    v_next record;
    v_made int := 0;
begin
    if not pg_try_advisory_xact_lock(1836150835, 0) then
        return;
    end if;
    foreach v_family in array array['log', 'tick', 'cursor', 'delayed', 'dedup'] loop
        while v_made < _make_segments.most loop
            select n.* into v_next from mqpg._next_segment(v_family) n;
            exit when not found;
            begin
                return next mqpg._make_segment(v_family, v_next.lower_bound, v_next.upper_bound, v_next.opened);
            exception when lock_not_available then
                return;
            end;
            v_made := v_made + 1;
        end loop;
    end loop;
end
$$;
comment on function mqpg._make_segments(int) is 'Internal: make the segments that are wanted ahead';

-- functions/keep/_next_segment.sql
-- The bounds of the segment that a family needs next, or no row where enough is made ahead:
-- log and tick: `segments_ahead` behind the one in use. cursor: only a first one (keep() makes the others by
-- age). delayed and dedup: the same number of lengths behind the current time; dedup has 12 slots a segment,
-- and a changed dedup_window moves the slot numbers, so holes are looked for.
-- Locks: none. Cost: a few index lookups.
create function mqpg._next_segment(
    family text, out lower_bound text, out upper_bound text, out opened boolean
) returns setof record
language plpgsql as $$
declare
    v_ahead int := mqpg._setting('segments_ahead');
    v_length bigint;
    v_slot interval;
    v_at bigint;
    v_end bigint;
    v_until timestamptz;
    v_last timestamptz;
begin
    if _next_segment.family in ('log', 'tick') then
        if _next_segment.family = 'log' then
            select b.last_value into v_at from mqpg.batch_id b;
            v_length := mqpg._setting('segment_ids');
        else
            select greatest(
                (select max(t.tick_id) from mqpg.tick t), (select max(h.half_tick_id) from mqpg.half_tick h), 0)
            into v_at;
            v_length := mqpg._setting('segment_ticks');
        end if;
        select coalesce(max(s.upper_bound::bigint), 0), count(*) filter (where s.upper_bound::bigint > v_at)
        into v_end, v_ahead
        from mqpg.segment s where s.family = _next_segment.family;
        if v_ahead > mqpg._setting('segments_ahead')::int then
            return;
        end if;
        -- a sequence set far ahead (promotion, restore) leaves out what it jumped over
        v_end := greatest(v_end, v_at / v_length * v_length);
        lower_bound := v_end;
        upper_bound := v_end + v_length;
        opened := v_ahead = 0;
        return next;
    elsif _next_segment.family = 'cursor' then
        if not exists (select from mqpg.segment s where s.family = 'cursor') then
            lower_bound := 1;
            upper_bound := 2;
            opened := true;
            return next;
        end if;
    elsif _next_segment.family = 'delayed' then
        v_slot := mqpg._setting('delayed_slot');
        select max(s.upper_bound::timestamptz) into v_last from mqpg.segment s where s.family = 'delayed';
        v_until := to_timestamp(ceil(extract(epoch from clock_timestamp()) / extract(epoch from v_slot))
            * extract(epoch from v_slot));
        if v_last is null or v_last < v_until + v_ahead * v_slot then
            lower_bound := coalesce(
                to_char(v_last at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'), '-infinity');
            upper_bound := to_char(greatest(v_until, v_last + v_slot) at time zone 'UTC',
                'YYYY-MM-DD"T"HH24:MI:SS.US"Z"');
            opened := true;
            return next;
        end if;
    elsif _next_segment.family = 'dedup' then
        v_at := mqpg._dedup_slot();
        v_end := v_at + 12 * (v_ahead + 1);
        loop
            exit when v_at >= v_end;
            select s.upper_bound::bigint into v_length from mqpg.segment s
            where s.family = 'dedup' and s.dropped_at is null
                and v_at >= s.lower_bound::bigint and v_at < s.upper_bound::bigint;
            if not found then
                lower_bound := v_at;
                upper_bound := least(v_at + 12, (
                    select min(s.lower_bound::bigint) from mqpg.segment s
                    where s.family = 'dedup' and s.dropped_at is null and s.lower_bound::bigint > v_at));
                opened := true;
                return next;
                return;
            end if;
            v_at := v_length;
        end loop;
    end if;
end
$$;
comment on function mqpg._next_segment(text) is 'Internal: bounds of the segment that is to be made next';

-- functions/keep/_note_tails.sql
-- Notes the next offset of every queue that has rows in a tick segment, before the segment is dropped.
-- Locks: the rows of queue_tail. Cost: reads the segment's part of consume_queue once.
create function mqpg._note_tails(from_tick bigint, to_tick bigint) returns void
language sql as $$
    insert into mqpg.queue_tail as q (topic_id, queue_id, subscription_id, next_offset)
    select c.topic_id, c.queue_id, c.subscription_id, max(c.base_offset + c.n)
    from mqpg.consume_queue c
    join mqpg.topic t on t.topic_id = c.topic_id
    where c.tick_id >= _note_tails.from_tick and c.tick_id < _note_tails.to_tick
    group by 1, 2, 3
    on conflict (topic_id, queue_id, subscription_id) do update
    set next_offset = greatest(q.next_offset, excluded.next_offset);
    delete from mqpg.queue_tail q where not exists (select from mqpg.topic t where t.topic_id = q.topic_id);
$$;
comment on function mqpg._note_tails(bigint, bigint) is 'Internal: note next offsets before a drop';

-- functions/keep/_purge.sql
-- Deletes what the small tables need no more: rows of held that are no survivors any longer (after a tick
-- segment was dropped, for that is when offsets go), ledger rows over 30 days old whose half is decided or gone
-- (one of an undecided half is what its verdict hangs on) and parked entries likewise, and what was left out or taken
-- from the dead letters longer ago than `jump_keep`. At most 10000 of each.
-- Locks: the rows. Cost: reads the ledger once, and consume_queue once where held has rows.
create function mqpg._purge()
returns table (action text, family text, segment_no bigint, detail text)
language plpgsql as $$
declare
    v_rows bigint;
begin
    if exists (select from mqpg.held) then
        with survivor as materialized (
            select v.message_id
            from (select min(h.message_id) as least, max(h.message_id) as most from mqpg.held h) r,
                mqpg._survivors(r.least, r.most + 1, -1, null) v
        )
        delete from mqpg.held h where not exists (select from survivor s where s.message_id = h.message_id);
        get diagnostics v_rows = row_count;
        if v_rows > 0 then
            return query select 'purged', 'held', null::bigint, format('%s messages', v_rows);
        end if;
    end if;
    with jump as (
        delete from mqpg.jump j where j.at < clock_timestamp() - mqpg._setting('jump_keep')::interval returning 1
    ),
    letter as (
        delete from mqpg.former_letter f
        where f.left_at < clock_timestamp() - mqpg._setting('jump_keep')::interval returning 1
    ),
    topic as (
        delete from mqpg.dropped_topic t
        where t.dropped_at < clock_timestamp() - mqpg._setting('jump_keep')::interval returning 1
    )
    select (select count(*) from jump) + (select count(*) from letter) + (select count(*) from topic) into v_rows;
    if v_rows > 0 then
        return query select 'purged', 'jump', null::bigint, format('%s rows', v_rows);
    end if;
    delete from mqpg.ledger l
    where l.handle in (
        select o.handle
        from (select g.handle from mqpg.ledger g where g.at < clock_timestamp() - interval '30 days' limit 10000) o
        where not mqpg._is_open(o.handle));
    get diagnostics v_rows = row_count;
    if v_rows > 0 then
        return query select 'purged', 'ledger', null::bigint, format('%s rows', v_rows);
    end if;
    delete from pgmq.a_mqpg_oplog a
    where a.msg_id in (
        select o.msg_id
        from pgmq.a_mqpg_oplog o
        where o.archived_at < clock_timestamp() - interval '30 days' and not mqpg._is_open(o.message ->> 'handle')
        limit 10000);
    get diagnostics v_rows = row_count;
    if v_rows > 0 then
        return query select 'purged', 'oplog', null::bigint, format('%s parked entries', v_rows);
    end if;
end
$$;
comment on function mqpg._purge() is 'Internal: delete old rows of the small tables';

-- functions/keep/_raise_oldest.sql
-- Where readers of some queues pin an expired tick segment, nobody may need what other queues have in it: their oldest
-- offset moves to where their own slowest subscription stands, at most to the end of the segment, so that bodies
-- before it need not be kept. A group that does not read then pins what it has not read, and no more.
-- Locks: the topic's keeping (1836150838, topic_id), tried only: who is about to begin at an oldest offset holds it.
-- Cost: reads the segment's part of consume_queue, and one look at each cursor of the topics in it.
create function mqpg._raise_oldest(segment mqpg.segment)
returns table (action text, family text, segment_no bigint, detail text)
language plpgsql as $$
declare
    v_queue record;
    v_rows int;
    v_raised int := 0;
begin
    for v_queue in
        select c.topic_id, c.queue_id, max(c.base_offset + c.n) as next_offset
        from mqpg.consume_queue c
        join mqpg.topic t on t.topic_id = c.topic_id
        where c.subscription_id = 0 and c.tick_id >= (_raise_oldest.segment).lower_bound::bigint
            and c.tick_id < (_raise_oldest.segment).upper_bound::bigint
        group by 1, 2
    loop
        continue when not pg_try_advisory_xact_lock(1836150838, v_queue.topic_id);
        -- a statement of its own: it sees who began before the lock was had
        insert into mqpg.queue_tail as q (topic_id, queue_id, subscription_id, oldest_offset)
        select v_queue.topic_id, v_queue.queue_id, 0, f.oldest_offset
        from (
            select least(v_queue.next_offset, min(k.committed)) as oldest_offset
            from mqpg.subscription s
            cross join lateral (
                select c.committed from mqpg.cursor c
                where c.subscription_id = s.subscription_id and c.queue_id = v_queue.queue_id
                order by c.version desc limit 1) as k
            where s.topic_id = v_queue.topic_id and (s.mode <> 'broadcast' or s.member <> '')
        ) as f
        where f.oldest_offset > mqpg._oldest(v_queue.topic_id, v_queue.queue_id, 0)
        on conflict (topic_id, queue_id, subscription_id) do update set oldest_offset = excluded.oldest_offset;
        get diagnostics v_rows = row_count;
        v_raised := v_raised + v_rows;
    end loop;
    if v_raised > 0 then
        return query select 'freed', 'tick', (_raise_oldest.segment).segment_no,
            format('the oldest offset of %s queues moved: nobody needs what is before', v_raised);
    end if;
end
$$;
comment on function mqpg._raise_oldest(mqpg.segment) is 'Internal: move oldest offsets over what nobody needs';

-- functions/keep/_renumber_dedup.sql
-- Trigger on settings: slots of dedup are numbered in lengths of dedup_window, so with another window the ids that are
-- known now get their places under the new numbers; those of the old ones mean nothing any more.
-- Locks: the keeper's; ACCESS EXCLUSIVE on dedup, each waited for up to the setting lock_timeout (55P03, and nothing is
-- changed): sends with a dedup id wait for it or it for them. Cost: a row for each id of the window, and DDL.
create function mqpg._renumber_dedup() returns trigger
language plpgsql as $$
declare
    v_timeout text := mqpg._wait_as_set();
    v_next record;
    v_old bigint;
    v_new bigint;           -- not before its partition is there
begin
    perform pg_advisory_xact_lock(1836150835, 0);
    lock table mqpg.dedup in access exclusive mode;
    v_old := mqpg._dedup_slot(old.value::interval);
    -- what _first_sends() would find: the later slot is right where both have the id
    create temp table mqpg_known as
    select distinct on (d.topic_id, d.dedup_id) d.topic_id, d.dedup_id, d.message_id
    from mqpg.dedup d
    where d.slot between v_old and v_old + 1
    order by d.topic_id, d.dedup_id, d.slot desc;
    truncate mqpg.dedup;
    loop
        select n.* into v_next from mqpg._next_segment('dedup') n;
        exit when not found;
        perform mqpg._make_segment('dedup', v_next.lower_bound, v_next.upper_bound, v_next.opened);
    end loop;
    v_new := mqpg._dedup_slot(new.value::interval);
    insert into mqpg.dedup (topic_id, dedup_id, slot, message_id)
    select k.topic_id, k.dedup_id, v_new + s.s, k.message_id
    from pg_temp.mqpg_known k
    cross join generate_series(0, 1) as s(s);
    drop table pg_temp.mqpg_known;
    perform set_config('lock_timeout', v_timeout, true);
    return null;
end
$$;
comment on function mqpg._renumber_dedup() is 'Internal: known dedup ids under the numbers of another window';

-- functions/keep/_roll_cursors.sql
-- Makes a new cursor slot where the newest has reached `cursor_slot_age`, carries every queue whose newest
-- state is still in an older one, and closes slots that nobody needs any more.
-- Locks: each queue's cursor lock, tried only, held till commit. Cost: one lookup for each queue of each
-- subscription, two inserts where it is carried; DDL for a new slot.
create function mqpg._roll_cursors()
returns table (action text, family text, segment_no bigint, detail text)
language plpgsql as $$
declare
    v_newest mqpg.segment;
    v_queue record;
    v_carried bigint := 0;
    v_busy bigint := 0;
begin
    select s.* into v_newest from mqpg.segment s where s.family = 'cursor' order by s.segment_no desc limit 1;
    if v_newest.made_at <= clock_timestamp() - mqpg._setting('cursor_slot_age')::interval then
        begin
            v_newest := mqpg._make_segment(
                'cursor', v_newest.upper_bound, (v_newest.upper_bound::bigint + 1)::text, true);
            return query select 'made', 'cursor', v_newest.segment_no, 'cursor_' || v_newest.segment_no;
        exception when lock_not_available then
            return query select 'blocked', 'cursor', v_newest.segment_no, 'cursor is busy';
        end;
    end if;
    if not exists (
        select from mqpg.segment s
        where s.family = 'cursor' and s.segment_no < v_newest.segment_no and s.dropped_at is null
    ) then
        return;
    end if;
    for v_queue in
        select s.subscription_id, c.queue_id
        from mqpg.subscription s
        join mqpg.topic t on t.topic_id = s.topic_id
        cross join lateral generate_series(-1, t.queues - 1) as q(queue_id)
        cross join lateral (
            select k.queue_id, k.slot from mqpg.cursor k
            where k.subscription_id = s.subscription_id and k.queue_id = q.queue_id
            order by k.version desc limit 1
        ) as c
        where c.slot < v_newest.lower_bound::int
    loop
        if mqpg._carry_cursor(v_queue.subscription_id, v_queue.queue_id, v_newest.lower_bound::int) then
            v_carried := v_carried + 1;
        else
            v_busy := v_busy + 1;
        end if;
    end loop;
    if v_carried > 0 or v_busy > 0 then
        return query select case when v_carried > 0 then 'carried' else 'blocked' end, 'cursor', v_newest.segment_no,
            format('%s queues carried, %s busy', v_carried, v_busy);
    end if;
    if v_busy = 0 then
        return query
        update mqpg.segment s set closed_at = clock_timestamp()
        where s.family = 'cursor' and s.segment_no < v_newest.segment_no and s.closed_at is null
        returning 'closed', 'cursor', s.segment_no, 'all queues are carried';
    end if;
end
$$;
comment on function mqpg._roll_cursors() is 'Internal: begin the next cursor slot by age and carry the state';

-- functions/keep/_roll_log.sql
-- Notes which log segment is in use, and begins the next one where the current has reached `segment_age`: the
-- batch id sequence is set to the next segment's lower bound. Only forward, only to a segment that an earlier
-- transaction made, and only while the sequence is a million ids away from that bound, so that no draw
-- between the look and the jump can be ahead of it. An empty segment is left alone.
-- `last_value` must have been read before this transaction had an xid: whoever drew an id below it and is
-- still open then has an older xid than opened_xid, which is what _close_log() waits for.
-- Locks: the caller holds the keeper's. Cost: a few lookups.
create function mqpg._roll_log(last_value bigint)
returns table (action text, family text, segment_no bigint, detail text)
language plpgsql as $$
declare
    v_current mqpg.segment;
    v_next mqpg.segment;
begin
    for v_current in
        update mqpg.segment s set opened_at = clock_timestamp(), opened_xid = pg_current_xact_id()
        where s.family = 'log' and s.opened_xid is null and s.segment_no > 1
            and s.lower_bound::bigint <= _roll_log.last_value
        returning s.*
    loop
        return query select 'opened', 'log', v_current.segment_no, 'in use from batch id ' || v_current.lower_bound;
    end loop;
    select s.* into v_current from mqpg.segment s
    where s.family = 'log' and s.lower_bound::bigint <= _roll_log.last_value
        and s.upper_bound::bigint > _roll_log.last_value;
    if not found or v_current.opened_at > clock_timestamp() - mqpg._setting('segment_age')::interval
        or _roll_log.last_value <= v_current.lower_bound::bigint
        or _roll_log.last_value > v_current.upper_bound::bigint - 1000000 then
        return;
    end if;
    select s.* into v_next from mqpg.segment s
    where s.family = 'log' and s.lower_bound::bigint >= v_current.upper_bound::bigint
    order by s.segment_no limit 1;
    if found then
        perform setval('mqpg.batch_id', v_next.lower_bound::bigint, false);
        return query select 'rolled', 'log', v_current.segment_no,
            format('older than %s: batch ids go on in segment %s', mqpg._setting('segment_age'), v_next.segment_no);
    end if;
end
$$;
comment on function mqpg._roll_log(bigint) is 'Internal: begin the next log segment by age';

-- functions/keep/_roll_ticks.sql
-- Begins the next tick segment where the current has reached `segment_age`, and lets half ticks follow: the
-- newest row is written again, unchanged, under the first id of the next segment. It carries the same
-- snapshot, so it means nothing to the appender but where its ids go on.
-- Locks: the appender's and the half pass's, tried only, held till commit. Cost: two lookups, two inserts.
create function mqpg._roll_ticks()
returns table (action text, family text, segment_no bigint, detail text)
language plpgsql as $$
declare
    v_current mqpg.segment;
    v_next mqpg.segment;
    v_tick_id bigint;
    v_half_tick_id bigint;
begin
    select max(t.tick_id) into v_tick_id from mqpg.tick t;
    select max(h.half_tick_id) into v_half_tick_id from mqpg.half_tick h;
    select s.* into v_current from mqpg.segment s
    where s.family = 'tick' and s.lower_bound::bigint <= v_tick_id and s.upper_bound::bigint > v_tick_id;
    if not found then
        return;
    end if;
    select s.* into v_next from mqpg.segment s
    where s.family = 'tick' and s.lower_bound::bigint >= v_current.upper_bound::bigint
    order by s.segment_no limit 1;
    if found and v_current.opened_at <= clock_timestamp() - mqpg._setting('segment_age')::interval
        and v_tick_id > v_current.lower_bound::bigint
        and pg_try_advisory_xact_lock(1836150834, 0) then
        insert into mqpg.tick (
            tick_id, xid, snapshot, snapshot_xmax, batch_seq, floor_id, due_until, messages, topic_ids, at)
        select v_next.lower_bound::bigint, t.xid, t.snapshot, t.snapshot_xmax, t.batch_seq, t.floor_id, t.due_until,
            0, '{}', clock_timestamp()
        from mqpg.tick t order by t.tick_id desc limit 1;
        return query select 'rolled', 'tick', v_current.segment_no, format(
            'older than %s: ticks go on in segment %s', mqpg._setting('segment_age'), v_next.segment_no);
        v_current := v_next;
    end if;
    update mqpg.segment s set opened_at = clock_timestamp()
    where s.family = 'tick' and s.segment_no = v_current.segment_no and s.opened_at is null;
    if v_half_tick_id < v_current.lower_bound::bigint and pg_try_advisory_xact_lock(1836150834, 1) then
        insert into mqpg.half_tick (half_tick_id, xid, snapshot, snapshot_xmax, batch_seq, floor_id, entries, at)
        select v_current.lower_bound::bigint, h.xid, h.snapshot, h.snapshot_xmax, h.batch_seq, h.floor_id, 0,
            clock_timestamp()
        from mqpg.half_tick h order by h.half_tick_id desc limit 1;
        return query select 'carried', 'tick', v_current.segment_no, 'half ticks go on here';
    end if;
end
$$;
comment on function mqpg._roll_ticks() is 'Internal: begin the next tick segment by age';

-- functions/keep/_stored_bytes.sql
-- About how many bytes of the commit log the messages at offsets from_offset .. to_offset - 1 of a queue take: what
-- their first 64 runs take on average, times their number.
-- Locks: none. Cost: reads the rows of up to 64 record batches, no bodies.
create function mqpg._stored_bytes(
    topic_id int, queue_id int, subscription_id int, from_offset bigint, to_offset bigint
) returns bigint
language plpgsql stable as $$
declare
    v_runs record;
    v_each numeric;
begin
    if _stored_bytes.from_offset >= _stored_bytes.to_offset then
        return 0;
    end if;
    v_runs := mqpg._runs(
        _stored_bytes.topic_id, _stored_bytes.queue_id, _stored_bytes.subscription_id, _stored_bytes.from_offset,
        least(_stored_bytes.to_offset, _stored_bytes.from_offset + 4096));
    select sum(l.size) / sum(l.n) into v_each
    from (
        select l.n, pg_column_size(l.payloads) + coalesce(pg_column_size(l.headers), 0)
            + coalesce(pg_column_size(l.keys), 0) + 100 as size
        from mqpg.commit_log l
        where l.batch_id in (select b / 1024 from unnest(v_runs.bodies[:64]) b)
            and l.batch_id between v_runs.lowest and v_runs.highest
        union all
        select 1, pg_column_size(h.payload) + coalesce(pg_column_size(h.headers), 0) + 100
        from mqpg.held h where h.message_id = any(v_runs.bodies[:64])
    ) as l;
    return ceil(coalesce(v_each, 0) * (_stored_bytes.to_offset - _stored_bytes.from_offset));
end
$$;
comment on function mqpg._stored_bytes(int, int, int, bigint, bigint) is
    'Internal: about how many bytes messages of a queue take';

-- functions/keep/_survivors.sql
-- Messages with an id in from_id..to_id (exclusive) that must stay readable, with the reason (I11); one may
-- come several times. Ids of bodies that lie elsewhere (final payloads) count like the message's own.
-- undecided: halves, parked ones too. delayed, retry: not appended yet. committed: decided, not appended yet.
-- queued: has an offset that is not below the oldest of its queue; of a retry lane, one not done yet.
-- dead: dead letters. Only consume_queue rows of ticks after after_tick are looked at; `most` ends the look.
-- One statement, so that a message on its way from one state to the next is seen in one of them.
-- Locks: none. Cost: the segment's halves, delayed, and all of consume_queue that is left after after_tick.
create function mqpg._survivors(from_id bigint, to_id bigint, after_tick bigint, most bigint)
returns table (message_id bigint, why text)
language sql stable as $$
    with newest as materialized (
        select t.snapshot, t.due_until from mqpg.tick t order by t.tick_id desc limit 1
    ),
    half as (
        select (l.batch_id << 10) + i.i as message_id
        from mqpg.commit_log l
        join mqpg.topic t on t.topic_id = l.topic_id
        cross join lateral generate_series(0, l.n - 1) as i(i)
        where l.kind = 'h' and l.batch_id >= _survivors.from_id >> 10 and l.batch_id < (_survivors.to_id + 1023) >> 10
        union all
        select h.message_id
        from mqpg.held h
        join mqpg.topic t on t.topic_id = h.topic_id
        where h.kind = 'h' and h.message_id >= _survivors.from_id and h.message_id < _survivors.to_id
    )
    select s.message_id, s.why
    from (
        select id.message_id, 'queued' as why
        from mqpg.consume_queue c
        join mqpg.topic t on t.topic_id = c.topic_id
        left join mqpg.subscription b on b.subscription_id = c.subscription_id
        left join mqpg.queue_tail f on f.topic_id = c.topic_id and f.queue_id = c.queue_id and f.subscription_id = 0
            and c.subscription_id = 0
        cross join lateral (
            select u.first_id, u.deliver_id, u.start, coalesce(lead(u.start) over (order by u.start), c.n) - u.start as n
            from unnest(c.first_ids, c.starts, c.deliver_ids) as u(first_id, start, deliver_id)
        ) as r
        cross join lateral generate_series(0, r.n - 1) as i(i)
        cross join lateral (values (r.first_id + i.i), (r.deliver_id + i.i)) as id(message_id)
        where c.tick_id > _survivors.after_tick
            and c.base_offset + r.start + i.i >= coalesce(f.oldest_offset, 0)
            and ((r.first_id < _survivors.to_id and r.first_id + r.n > _survivors.from_id)
                or (r.deliver_id < _survivors.to_id and r.deliver_id + r.n > _survivors.from_id))
            and (c.subscription_id = 0 or (b.subscription_id is not null and c.base_offset + c.n > (
                select k.committed from mqpg.cursor k
                where k.subscription_id = c.subscription_id and k.queue_id = -1 order by k.version desc limit 1)))
        union all
        select half.message_id, 'undecided'
        from half
        where not exists (
            select from mqpg.op_log o
            where o.message_id = half.message_id and o.stage = 0
                and o.message_id >= _survivors.from_id and o.message_id < _survivors.to_id)
        union all
        select id.message_id, case when d.subscription_id = 0 then 'delayed' else 'retry' end
        from mqpg.delayed d
        join mqpg.topic t on t.topic_id = d.topic_id
        left join newest on true
        cross join lateral generate_series(0, d.n - 1) as i(i)
        cross join lateral (values (d.first_id + i.i), (d.deliver_id + i.i)) as id(message_id)
        where ((d.first_id < _survivors.to_id and d.first_id + d.n > _survivors.from_id)
                or (d.deliver_id < _survivors.to_id and d.deliver_id + d.n > _survivors.from_id))
            and (d.subscription_id = 0 or exists (
                select from mqpg.subscription b
                where b.subscription_id = d.subscription_id and b.retries_from <= d.written_at))
            and (newest.snapshot is null or d.visible_at > newest.due_until
                or not pg_visible_in_snapshot(d.xid, newest.snapshot))
            and not (d.subscription_id = 0 and exists (
                select from mqpg.op_log o where o.message_id = d.first_id + i.i and o.stage = 1 and o.op = 'r'))
        union all
        select id.message_id, 'committed'
        from mqpg.op_log o
        join mqpg.topic t on t.topic_id = o.topic_id
        left join newest on true
        cross join lateral (values (o.message_id), (o.deliver_id)) as id(message_id)
        where o.op = 'c' and o.visible_at is null
            and o.xid >= coalesce((select pg_snapshot_xmin(x.snapshot) from newest x), '0'::xid8)
            and (newest.snapshot is null or not pg_visible_in_snapshot(o.xid, newest.snapshot))
        union all
        select id.message_id, 'dead'
        from mqpg.dead_letter d
        cross join lateral (values (d.message_id), (d.deliver_id)) as id(message_id)
    ) as s
    where s.message_id >= _survivors.from_id and s.message_id < _survivors.to_id
    limit _survivors.most
$$;
comment on function mqpg._survivors(bigint, bigint, bigint, bigint) is 'Internal: messages that must stay readable';

-- functions/keep/_undelivered.sql
-- What subscriptions have not yet done with of a tick segment, one row for each queue (-1: their retry lane): where
-- they stand, and where their part of the segment begins and ends. The own row of a broadcast group is no reader.
-- Locks: none. Cost: three index lookups for each queue of each subscription.
create function mqpg._undelivered(from_tick bigint, to_tick bigint) returns table (
    subscription_id int, consumer_group text, member text, topic_id int, topic text, queue_id int,
    committed bigint, first_offset bigint, next_offset bigint
)
language sql stable as $$
    select s.subscription_id, s.consumer_group, s.member, t.topic_id, t.name, q.queue_id, k.committed,
        b.base_offset, p.next_offset
    from mqpg.subscription s
    join mqpg.topic t on t.topic_id = s.topic_id
    cross join lateral generate_series(-1, t.queues - 1) as q(queue_id)
    cross join lateral (
        select c.base_offset + c.n as next_offset from mqpg.consume_queue c
        where c.topic_id = s.topic_id and c.queue_id = q.queue_id
            and c.subscription_id = case when q.queue_id = -1 then s.subscription_id else 0 end
            and c.tick_id >= _undelivered.from_tick and c.tick_id < _undelivered.to_tick
        order by c.base_offset desc limit 1
    ) as p
    cross join lateral (
        select c.base_offset from mqpg.consume_queue c
        where c.topic_id = s.topic_id and c.queue_id = q.queue_id
            and c.subscription_id = case when q.queue_id = -1 then s.subscription_id else 0 end
            and c.tick_id >= _undelivered.from_tick and c.tick_id < _undelivered.to_tick
        order by c.base_offset limit 1
    ) as b
    cross join lateral (
        select c.committed from mqpg.cursor c
        where c.subscription_id = s.subscription_id and c.queue_id = q.queue_id
        order by c.version desc limit 1
    ) as k
    where k.committed < p.next_offset and (s.mode <> 'broadcast' or s.member <> '')
$$;
comment on function mqpg._undelivered(bigint, bigint) is 'Internal: what subscriptions still need of a tick segment';

-- functions/keep/_pins.sql
-- What subscriptions (or one) have not read of closed tick segments, which keeps these from being dropped: for each
-- queue (-1: the retry lane) the offsets, how many messages that is at most, and about how many bytes they take.
-- Locks: none. Cost: for each segment see _undelivered(), and _stored_bytes() for each row.
create function mqpg._pins(subscription_id int default null) returns table (
    consumer_group text, member text, topic text, queue_id int, segment_no bigint, closed_at timestamptz,
    from_offset bigint, to_offset bigint, messages bigint, bytes bigint
)
language sql stable as $$
    select u.consumer_group, u.member, u.topic, u.queue_id, s.segment_no, s.closed_at, f.from_offset, u.next_offset,
        u.next_offset - f.from_offset, b.bytes
    from mqpg.segment s
    cross join lateral mqpg._undelivered(s.lower_bound::bigint, s.upper_bound::bigint) u
    cross join lateral (select greatest(u.committed, u.first_offset) as from_offset) f
    cross join lateral (select mqpg._stored_bytes(
        u.topic_id, u.queue_id, case u.queue_id when -1 then u.subscription_id else 0 end, f.from_offset,
        u.next_offset) as bytes) b
    where s.family = 'tick' and s.closed_at is not null and s.body_dropped_at is null
        and (_pins.subscription_id is null or u.subscription_id = _pins.subscription_id)
$$;
comment on function mqpg._pins(int) is 'Internal: unread parts of closed segments';

-- functions/keep/keep.sql
-- One pass of the keeper: notes what is in use, begins new segments by age, makes some ahead, carries cursors, closes
-- what is complete, and drops what is past retention and needed by nobody (I11), at most one table a pass and none in
-- a pass that made or carried something. Returns what it did: action opened, rolled, made, carried, closed, dropped,
-- pinned (with what pins it), freed (oldest offsets moved), lost (by a policy: what, of whom), blocked (busy, next
-- time), purged. Nothing where another keeper is at it. Call it until it returns no row but pinned and blocked, then
-- every minute or so; pg_cron may.
-- Locks: the keeper's lock till commit; see the parts; every wait for a table is short. Cost: a few lookups where
-- there is nothing to do. Errors: MQ015.
create function mqpg.keep() returns table (action text, family text, segment_no bigint, detail text)
language plpgsql as $$
declare
    v_last_value bigint;
    v_changed boolean := false;
begin
    perform mqpg._check_own_transaction('keep');
    if not pg_try_advisory_xact_lock(1836150835, 0) then
        return;
    end if;
    select b.last_value into v_last_value from mqpg.batch_id b;
    return query select r.* from mqpg._roll_log(v_last_value) r;
    for action, family, segment_no, detail in
        select 'made', m.family, m.segment_no, format('%s to %s', m.lower_bound, m.upper_bound)
        from mqpg._make_segments() m
    loop
        v_changed := true;
        return next;
    end loop;
    for action, family, segment_no, detail in select r.* from mqpg._roll_ticks() r loop
        v_changed := true;
        return next;
    end loop;
    for action, family, segment_no, detail in select r.* from mqpg._roll_cursors() r loop
        v_changed := v_changed or action <> 'blocked';
        return next;
    end loop;
    return query select c.* from mqpg._close_segments() c;
    if not v_changed then
        return query select d.* from mqpg._drop_segments() d;
    end if;
end
$$;
comment on function mqpg.keep() is 'One pass of the keeper: make, close and drop segments; returns what it did';

-- functions/adopt/_renew_cursors.sql
-- A new version of each cursor, 2^32 further, so that no receipt from behind the copy's time fits, in which nobody
-- holds a claim: what was in flight may be received at once, with its attempts. Pinned queues keep their owners.
-- Locks: the caller holds the table against writers. Cost: one row a cursor.
create function mqpg._renew_cursors() returns void
language sql as $$
    insert into mqpg.cursor (
        version, committed, claimed, at, epoch, subscription_id, slot, queue_id, action, owner, claims)
    select k.version + 4294967296, k.committed, k.claimed, clock_timestamp(), null, k.subscription_id, k.slot,
        k.queue_id, 'i', k.owner,
        array(select mqpg._free_claim(c, k, c.attempt) from unnest(k.claims) c order by (c).from_offset)
    from mqpg.subscription s
    join mqpg.topic t on t.topic_id = s.topic_id
    cross join lateral generate_series(-1, t.queues - 1) as q(queue_id)
    cross join lateral (
        select c.* from mqpg.cursor c
        where c.subscription_id = s.subscription_id and c.queue_id = q.queue_id
        order by c.version desc limit 1
    ) as k
$$;
comment on function mqpg._renew_cursors() is 'Internal: free all claims of a copy';

-- functions/adopt/_renew_ids.sql
-- Batch ids and tick ids go on 1024 segments further, where nothing that happened behind the copy's time can have been;
-- there the newest tick is written again, after a restore with a snapshot in which the caller's own rows are all that
-- is new.
-- Locks: the caller's; DDL as _make_segment(). Cost: a few inserts; see _renew_xids().
create function mqpg._renew_ids(last_tick mqpg.tick, foreign_xids boolean) returns void
language plpgsql as $$
declare
    v_own xid8 := pg_current_xact_id();
    v_ids bigint := mqpg._setting('segment_ids');
    v_ticks bigint := mqpg._setting('segment_ticks');
    v_batch bigint := (select b.last_value from mqpg.batch_id b);
    v_tick_id bigint := greatest((_renew_ids.last_tick).tick_id, (select max(h.half_tick_id) from mqpg.half_tick h));
    v_snapshot pg_snapshot := (_renew_ids.last_tick).snapshot;
    v_half mqpg.half_tick;
begin
    v_batch := (v_batch / v_ids + 1024) * v_ids;
    v_tick_id := (v_tick_id / v_ticks + 1024) * v_ticks;
    perform mqpg._make_segment('log', v_batch::text, (v_batch + v_ids)::text, true);
    perform mqpg._make_segment('tick', v_tick_id::text, (v_tick_id + v_ticks)::text, true);
    perform setval('mqpg.batch_id', v_batch, true);
    select h.* into v_half from mqpg.half_tick h order by h.half_tick_id desc limit 1;
    if _renew_ids.foreign_xids then
        perform mqpg._renew_xids(_renew_ids.last_tick);
        v_snapshot := format('%s:%s:', v_own, v_own);
        v_half.snapshot := v_snapshot;
        v_half.floor_id := 0;
        v_half.xid := v_own;
        v_half.batch_seq := v_batch;
    end if;
    insert into mqpg.tick (
        tick_id, xid, snapshot, snapshot_xmax, batch_seq, floor_id, due_until, messages, topic_ids, at)
    select v_tick_id, case when _renew_ids.foreign_xids then v_own else t.xid end, v_snapshot,
        pg_snapshot_xmax(v_snapshot), case when _renew_ids.foreign_xids then v_batch else t.batch_seq end, t.floor_id,
        t.due_until, 0, '{}', clock_timestamp()
    from mqpg.tick t order by t.tick_id desc limit 1;
    insert into mqpg.half_tick (half_tick_id, xid, snapshot, snapshot_xmax, batch_seq, floor_id, entries, at)
    values (v_tick_id, v_half.xid, v_half.snapshot, pg_snapshot_xmax(v_half.snapshot), v_half.batch_seq,
        v_half.floor_id, 0, clock_timestamp());
    -- those made ahead come next; a keeper would make them, too
    perform mqpg._make_segments();
end
$$;
comment on function mqpg._renew_ids(mqpg.tick, boolean) is 'Internal: move ids beyond what a copy cannot know';

-- functions/adopt/_renew_xids.sql
-- Rewrites the transaction ids of all rows, which came from another cluster: '2', which every snapshot sees, where
-- the newest tick saw the row, so that it has what it needs; '1' where its offsets were dropped with their ticks,
-- which the audit tells apart; and the caller's own xid where it is still to be appended or, a half, to be put into
-- the op-log queue (also one whose entry did not come along), so that the next pass takes it.
-- Locks: ACCESS EXCLUSIVE on all hot tables. Cost: writes each row of them.
create function mqpg._renew_xids(last_tick mqpg.tick) returns void
language plpgsql as $$
declare
    v_own xid8 := pg_current_xact_id();
    v_new pg_snapshot := (_renew_xids.last_tick).snapshot;
    v_half pg_snapshot := (select h.snapshot from mqpg.half_tick h order by h.half_tick_id desc limit 1);
    v_old pg_snapshot := (
        select t.snapshot from mqpg.tick t
        where t.tick_id >= (
            select max(s.upper_bound::bigint) from mqpg.segment s
            where s.family = 'tick' and s.body_dropped_at is not null)
        order by t.tick_id limit 1);
    v_unasked bigint [];
begin
    lock table mqpg.commit_log, mqpg.op_log, mqpg.delayed, mqpg.held, mqpg.tick, mqpg.half_tick
        in access exclusive mode;
    v_unasked := array(
        select distinct l.message_id / 1024
        from (
            select h.batch_id * 1024 + i as message_id
            from mqpg.commit_log h cross join generate_series(0, h.n - 1) i where h.kind = 'h'
            union all
            select h.message_id from mqpg.held h where h.kind = 'h'
        ) as l
        where not exists (select from mqpg.op_log o where o.message_id = l.message_id and o.stage = 0)
            and not exists (
                select from pgmq.q_mqpg_oplog q where (q.message ->> 'message_id')::bigint = l.message_id)
            and not exists (
                select from pgmq.a_mqpg_oplog a where (a.message ->> 'message_id')::bigint = l.message_id));
    update mqpg.commit_log l set xid = case
        when l.kind = 'h' then case
            when pg_visible_in_snapshot(l.xid, v_half) and l.batch_id <> all(v_unasked) then '2'::xid8 else v_own
        end
        else mqpg._renewed_xid(l.xid, v_own, v_new, v_old)
    end;
    update mqpg.held h set xid = mqpg._renewed_xid(h.xid, v_own, v_new, v_old);
    update mqpg.op_log o set xid = mqpg._renewed_xid(o.xid, v_own, v_new, v_old);
    update mqpg.delayed d set xid = mqpg._renewed_xid(d.xid, v_own, v_new, v_old);
    update mqpg.tick t set xid = '2', snapshot = '2:2:', snapshot_xmax = '2';
    update mqpg.half_tick h set xid = '2', snapshot = '2:2:', snapshot_xmax = '2', floor_id = 0, batch_seq = 0;
    update mqpg.segment s set opened_xid = '2' where s.opened_xid is not null;
end
$$;
comment on function mqpg._renew_xids(mqpg.tick) is 'Internal: rewrite transaction ids of another cluster';

-- functions/adopt/_renewed_xid.sql
-- What a transaction id of another cluster becomes: see _renew_xids.
-- Locks: none. Cost: none.
create function mqpg._renewed_xid(xid xid8, own xid8, newest pg_snapshot, oldest pg_snapshot) returns xid8
language sql immutable as $$
    select case
        when not pg_visible_in_snapshot(_renewed_xid.xid, _renewed_xid.newest) then _renewed_xid.own
        when coalesce(pg_visible_in_snapshot(_renewed_xid.xid, _renewed_xid.oldest), false) then '1'::xid8
        else '2'::xid8
    end
$$;
comment on function mqpg._renewed_xid(xid8, xid8, pg_snapshot, pg_snapshot) is
    'Internal: transaction id of a restored row';

-- functions/adopt/adopt.sql
-- Makes a copy of a broker a broker again: after a dump was restored into another cluster (append() refuses with
-- MQ016), after a promotion, or a recovery to a point in time; call it before anybody writes. It raises the
-- incarnation, moves message ids, tick ids and cursor versions far beyond what the copy cannot know of, and frees all
-- claims: receipts from before are stale, handles from before stay good. In another cluster the transaction ids of
-- all rows mean nothing: they are rewritten, and what had no offset yet is appended by the next append(). same_xids
-- says that they came along (pg_upgrade). Returns what was done.
-- Locks: the appender's, the keeper's; cursor against writers; after a restore all hot tables, ACCESS EXCLUSIVE; each
-- waited for up to the setting lock_timeout. Cost: one version a cursor; after a restore every row of the hot tables
-- is written anew, the one time that these see an UPDATE. Errors: MQ015, MQ016 (same_xids cannot be), 55P03.
create function mqpg.adopt(same_xids boolean default false) returns text
language plpgsql as $$
declare
    v_tick mqpg.tick;
    v_known bigint := (select b.system_identifier from mqpg.broker b);
    v_actual bigint := (select c.system_identifier from pg_control_system() c);
    v_behind boolean;
    v_foreign boolean;
    v_incarnation int;
begin
    perform mqpg._check_own_transaction('adopt');
    perform mqpg._wait_as_set();
    perform pg_advisory_xact_lock(1836150834, 0);
    perform pg_advisory_xact_lock(1836150834, 1);
    perform pg_advisory_xact_lock(1836150835, 0);
    lock table mqpg.cursor in share row exclusive mode;
    select t.* into v_tick from mqpg.tick t order by t.tick_id desc limit 1;
    v_behind := v_tick.snapshot_xmax > pg_snapshot_xmax(pg_current_snapshot());
    v_foreign := v_behind or (v_known <> v_actual and not coalesce(adopt.same_xids, false));
    if v_behind and adopt.same_xids then
        raise exception using errcode = 'MQ016',
            message = 'the transaction ids of this cluster are behind those of the data: they did not come along',
            hint = 'select mqpg.adopt() rewrites them.';
    end if;
    update mqpg.broker b set incarnation = b.incarnation + 1, system_identifier = v_actual
    returning b.incarnation into v_incarnation;
    perform mqpg._renew_ids(v_tick, v_foreign);
    perform mqpg._renew_cursors();
    return format('incarnation %s of broker %s: %s', v_incarnation, (select b.broker_id from mqpg.broker b), case
        when v_foreign then 'transaction ids rewritten; what has no offset comes with the next append()'
        else 'transaction ids kept'
    end);
end
$$;
comment on function mqpg.adopt(boolean) is 'Make a restored, promoted or recovered copy a broker again';

-- functions/append/_anything_new.sql
-- Whether a pass of the appender may have something to do: a look at each of its sources that stops at the
-- first row, for most passes of an idle broker find none and the whole INSERT costs ten times as much.
-- It may say yes where no row is visible in S1 yet, never no where one is.
-- Locks: none. Cost: a few index lookups.
create function mqpg._anything_new(last_tick mqpg.tick, upto pg_snapshot, due_until timestamptz) returns boolean
language plpgsql volatile as $$
declare
    v_floor bigint := _anything_new.last_tick.floor_id;
    v_from xid8 := _anything_new.last_tick.snapshot_xmax;
    v_before xid8 := pg_snapshot_xmax(_anything_new.upto);
    v_late xid8 [] := array(select pg_snapshot_xip(_anything_new.last_tick.snapshot));
    v_due_from timestamptz := _anything_new.last_tick.due_until;
begin
    if exists (
        select from mqpg.commit_log l
        where l.kind = 'n' and l.batch_id > v_floor and l.xid >= v_from and l.xid < v_before) then
        return true;
    end if;
    if exists (
        select from mqpg.op_log o
        where o.op = 'c' and o.visible_at is null and o.xid >= v_from and o.xid < v_before) then
        return true;
    end if;
    if exists (
        select from mqpg.delayed d where d.visible_at > v_due_from and d.visible_at <= _anything_new.due_until)
        -- whatever their time: the pass stores a tick that has seen them, else each pass would read all of them
        or exists (select from mqpg.delayed d where d.xid >= v_from and d.xid < v_before) then
        return true;
    end if;
    return v_late <> '{}' and (
        exists (select from mqpg.commit_log l where l.kind = 'n' and l.batch_id > v_floor and l.xid = any(v_late))
        or exists (select from mqpg.op_log o where o.op = 'c' and o.visible_at is null and o.xid = any(v_late))
        or exists (select from mqpg.delayed d where d.xid = any(v_late)));
end
$$;
comment on function mqpg._anything_new(mqpg.tick, pg_snapshot, timestamptz)
    is 'Internal: whether a pass of the appender may have something to do';

-- functions/append/_append_runs.sql
-- The appender's one INSERT: collects what is new up to a snapshot and a due time, orders it, joins
-- neighbours into runs, and writes rows of at most 64 runs and 4096 messages behind each queue's tail.
-- Ids b * 1024 + 1023 and (b + 1) * 1024 are neighbours as numbers and never join; decisions join only
-- where ids ascend in decision order.
-- Locks: none beyond the new rows (append() serialises callers). Cost: linear in the new record batches.
create function mqpg._append_runs(
    last_tick mqpg.tick, upto pg_snapshot, due_until timestamptz, out messages bigint, out topic_ids int [],
    out was_due boolean
)
language plpgsql as $$
declare
    v_floor bigint := _append_runs.last_tick.floor_id;
    v_from xid8 := _append_runs.last_tick.snapshot_xmax;
    v_before xid8 := pg_snapshot_xmax(_append_runs.upto);
    v_late xid8 [] := array(select pg_snapshot_xip(_append_runs.last_tick.snapshot));
    v_due_from timestamptz := _append_runs.last_tick.due_until;
begin
    _append_runs.was_due := mqpg._decide_due(_append_runs.last_tick, _append_runs.upto, _append_runs.due_until);
    with due as materialized (
        select d.*, (extract(epoch from d.visible_at) * 1000000)::bigint as place
        from mqpg.delayed d
        where d.visible_at > v_due_from and d.visible_at <= _append_runs.due_until
            and pg_visible_in_snapshot(d.xid, _append_runs.upto)
        union all
        select d.*, (extract(epoch from d.visible_at) * 1000000)::bigint as place
        from mqpg.delayed d
        where d.visible_at <= v_due_from and d.xid >= v_from and d.xid < v_before
            and pg_visible_in_snapshot(d.xid, _append_runs.upto)
        union all
        select d.*, (extract(epoch from d.visible_at) * 1000000)::bigint as place
        from mqpg.delayed d
        where d.visible_at <= v_due_from and d.xid = any(v_late)
            and pg_visible_in_snapshot(d.xid, _append_runs.upto)
    ),
    fresh as materialized (
        select l.topic_id, l.queue_id, 0 as subscription_id, l.batch_id as place, l.batch_id * 1024 as id,
            l.n::int as n, null::bigint as deliver_id, null::smallint as attempt, false as due
        from mqpg.commit_log l
        where l.kind = 'n' and l.batch_id > v_floor and l.xid >= v_from and l.xid < v_before
            and pg_visible_in_snapshot(l.xid, _append_runs.upto)
        union all
        select l.topic_id, l.queue_id, 0, l.batch_id, l.batch_id * 1024, l.n, null, null, false
        from mqpg.commit_log l
        where l.kind = 'n' and l.batch_id > v_floor and l.xid = any(v_late)
            and pg_visible_in_snapshot(l.xid, _append_runs.upto)
        union all
        select o.topic_id, o.queue_id, 0, o.order_no, o.message_id, 1, o.deliver_id, null, false
        from mqpg.op_log o
        where o.op = 'c' and o.visible_at is null and o.xid >= v_from and o.xid < v_before
            and pg_visible_in_snapshot(o.xid, _append_runs.upto)
        union all
        select o.topic_id, o.queue_id, 0, o.order_no, o.message_id, 1, o.deliver_id, null, false
        from mqpg.op_log o
        where o.op = 'c' and o.visible_at is null and o.xid = any(v_late)
            and pg_visible_in_snapshot(o.xid, _append_runs.upto)
        union all
        select d.topic_id, d.queue_id, d.subscription_id, d.place, d.first_id, d.n, d.deliver_id, d.attempt, true
        from due d
        where d.subscription_id <> 0 and not exists (
            select from mqpg.subscription b
            where b.subscription_id = d.subscription_id and b.retries_from > d.written_at)
        union all
        -- message by message: a recalled one splits its run; only what this very pass decided, for a message
        -- that was put off has a second row
        select d.topic_id, d.queue_id, 0, d.place, o.message_id, 1, d.deliver_id, null, true
        from due d
        join lateral (
            select k.message_id from mqpg.op_log k
            where k.message_id between d.first_id and d.first_id + d.n - 1 and k.stage = 1 and k.op = 'd'
                and k.xid = pg_current_xact_id()
        ) as o on true
        where d.subscription_id = 0
    ),
    marked as (
        select f.*, row_number() over w as nth,
            case when lag(f.id + f.n) over w = f.id and lag(f.id / 1024) over w = f.id / 1024
                and f.deliver_id is null and lag(f.deliver_id) over w is null
                and f.attempt is not distinct from lag(f.attempt) over w then 0 else 1 end as begins
        from fresh f
        window w as (partition by f.topic_id, f.queue_id, f.subscription_id order by f.due, f.place, f.id)
    ),
    joined as (
        select m.*, sum(m.begins) over (
            partition by m.topic_id, m.queue_id, m.subscription_id order by m.nth) as run
        from marked m
    ),
    runs as (
        select j.topic_id, j.queue_id, j.subscription_id, j.run - 1 as nth, min(j.id) as first_id,
            sum(j.n)::int as n, min(j.deliver_id) as deliver_id, min(j.attempt) as attempt
        from joined j group by j.topic_id, j.queue_id, j.subscription_id, j.run
    ),
    placed as (
        select r.*, sum(r.n) over (
            partition by r.topic_id, r.queue_id, r.subscription_id order by r.nth) - r.n as begin_at
        from runs r
    ),
    piece as (
        -- a row begins inside one window of 3072 messages and its last run has at most 1024
        select p.topic_id, p.queue_id, p.subscription_id, min(p.begin_at) as begin_at, sum(p.n)::int as n,
            array_agg(p.first_id order by p.nth) as first_ids,
            array_agg(p.begin_at order by p.nth) as begins,
            case when count(p.deliver_id) > 0 then array_agg(p.deliver_id order by p.nth) end as deliver_ids,
            case when count(p.attempt) > 0 then array_agg(p.attempt order by p.nth) end as attempts
        from placed p
        group by p.topic_id, p.queue_id, p.subscription_id, p.nth / 64, (p.begin_at / 3072)::int
    ),
    tail as (
        select k.topic_id, k.queue_id, k.subscription_id,
            mqpg._tail(k.topic_id, k.queue_id, k.subscription_id) as next_offset
        from (select distinct p.topic_id, p.queue_id, p.subscription_id from piece p) as k
    ),
    appended as (
        insert into mqpg.consume_queue (
            base_offset, tick_id, topic_id, subscription_id, n, queue_id, first_ids, starts, deliver_ids, attempts)
        select t.next_offset + p.begin_at, _append_runs.last_tick.tick_id + 1, p.topic_id, p.subscription_id, p.n,
            p.queue_id, p.first_ids, array(select (b - p.begin_at)::int from unnest(p.begins) b),
            p.deliver_ids, p.attempts
        from piece p
        join tail t using (topic_id, queue_id, subscription_id)
        returning topic_id, n
    )
    -- purged retries were due, too, and rows newly scheduled are seen now: without a tick the next pass would meet
    -- them again
    select coalesce(sum(a.n), 0), coalesce(array_agg(distinct a.topic_id), '{}'),
        _append_runs.was_due or exists (select from due)
            or exists (select from mqpg.delayed d where d.xid >= v_from and d.xid < v_before)
            or exists (select from mqpg.delayed d where d.xid = any(v_late))
    into _append_runs.messages, _append_runs.topic_ids, _append_runs.was_due
    from appended a;
end
$$;
comment on function mqpg._append_runs(mqpg.tick, pg_snapshot, timestamptz)
    is 'Internal: append what is new to the consume queues';

-- functions/append/_check_cluster.sql
-- Refuses to append in a cluster other than the one whose xids the rows carry (MQ016): after a restore from
-- a dump xids begin anew and a snapshot of old says nothing about them.
-- Locks: none. Cost: reads the control file.
create function mqpg._check_cluster(s0 pg_snapshot, s1 pg_snapshot) returns void
language plpgsql as $$
declare
    v_known bigint := (select b.system_identifier from mqpg.broker b);
    v_actual bigint := (select c.system_identifier from pg_control_system() c);
begin
    if v_known <> v_actual or pg_snapshot_xmax(_check_cluster.s0) > pg_snapshot_xmax(_check_cluster.s1) then
        raise exception using errcode = 'MQ016',
            message = 'this database was restored into another cluster: its transaction ids do not hold here',
            detail = format('system identifier %s recorded, %s found; newest tick %s, current snapshot %s',
                v_known, v_actual, _check_cluster.s0, _check_cluster.s1),
            hint = 'Appending would lose or repeat messages. With all workers stopped, select mqpg.adopt() makes it a broker again.';
    end if;
end
$$;
comment on function mqpg._check_cluster(pg_snapshot, pg_snapshot) is 'Internal: refuse a restored copy';

-- functions/append/_cut.sql
-- Cuts a backlog: the snapshot S1 as it would have been when xid x was the next one, with
-- xmax(S0) <= x <= xmax(S1) chosen so that about max_messages are new. An x below xmax(S0) would append
-- messages again.
-- Locks: none. Cost: an index scan of at most 2 * max_messages entries.
create function mqpg._cut(last_tick mqpg.tick, s1 pg_snapshot, max_messages int) returns pg_snapshot
language plpgsql as $$
declare
    v_s0_xmax xid8 := _cut.last_tick.snapshot_xmax;
    v_last xid8;
    v_x bigint;
begin
    select least(
        (select c.xid from (
            select l.xid, sum(l.n) over (order by l.xid rows unbounded preceding) as total from mqpg.commit_log l
            where l.kind = 'n' and l.batch_id > _cut.last_tick.floor_id
                and l.xid >= v_s0_xmax and l.xid < pg_snapshot_xmax(_cut.s1)
            order by l.xid limit _cut.max_messages) as c
        where c.total >= _cut.max_messages order by c.xid limit 1),
        (select o.xid from mqpg.op_log o
        where o.op = 'c' and o.visible_at is null and o.xid >= v_s0_xmax and o.xid < pg_snapshot_xmax(_cut.s1)
        order by o.xid offset _cut.max_messages - 1 limit 1)) into v_last;
    if v_last is null then
        return _cut.s1;
    end if;
    v_x := v_last::text::bigint + 1;
    return (
        select format('%s:%s:%s', least(pg_snapshot_xmin(_cut.s1)::text::bigint, v_x), v_x,
            string_agg(x.xid::text, ',' order by x.xid))::pg_snapshot
        from pg_snapshot_xip(_cut.s1) as x(xid)
        where x.xid::text::bigint < v_x);
end
$$;
comment on function mqpg._cut(mqpg.tick, pg_snapshot, int) is 'Internal: cut the appender''s snapshot at a backlog';

-- functions/append/_cut_due.sql
-- Cuts what is due: the time up to which about max_messages rows become due in one pass.
-- Locks: none. Cost: an index scan of at most max_messages entries.
create function mqpg._cut_due(due_from timestamptz, due_until timestamptz, max_messages int) returns timestamptz
language sql stable as $$
    select coalesce(
        (select d.visible_at from mqpg.delayed d
         where d.visible_at > _cut_due.due_from and d.visible_at <= _cut_due.due_until
         order by d.visible_at offset _cut_due.max_messages - 1 limit 1),
        _cut_due.due_until)
$$;
comment on function mqpg._cut_due(timestamptz, timestamptz, int) is
    'Internal: cut the appender''s due time at a backlog';

-- functions/append/_decide_due.sql
-- Writes op due for each message that a pass of the appender delivers late or on time, unless it was recalled:
-- the key decides. A message whose recall is still open is put off by a second, so that nobody's transaction
-- holds the appender up. Retries cannot be recalled and are left alone. True where a message was due, recalled and
-- put off ones too: then the pass must store its tick, else the next one meets the same rows again, and with
-- them the rows of what was put off.
-- Open recalls are looked up, not tried one by one: a lock for each due message could exhaust the lock table.
-- One that comes between the look and the insert makes the insert wait for it; then it looks again.
-- Locks: 1836150839, 0, by trying; the decisions' keys, each waited for at most 200 ms.
-- Cost: one insert a due message; one index lookup where nothing is due; pg_locks where a recall is open.
create function mqpg._decide_due(last_tick mqpg.tick, upto pg_snapshot, due_until timestamptz) returns boolean
language plpgsql
set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off
set lock_timeout = '200ms' as $$
declare
    v_from xid8 := _decide_due.last_tick.snapshot_xmax;
    v_late xid8 [] := array(select pg_snapshot_xip(_decide_due.last_tick.snapshot));
    v_due_from timestamptz := _decide_due.last_tick.due_until;
    v_now timestamptz := clock_timestamp();
    v_until timestamptz := greatest(v_now, _decide_due.due_until);
    v_ids bigint [];
    v_bodies bigint [];
    v_topics int [];
    v_queues smallint [];
    v_recalling boolean;
    v_busy int [] := '{}';  -- hashes of the messages that open recalls are about
    v_order bigint;
begin
    select array_agg(d.first_id + i order by d.first_id + i), array_agg(d.deliver_id order by d.first_id + i),
        array_agg(d.topic_id order by d.first_id + i), array_agg(d.queue_id order by d.first_id + i)
    into v_ids, v_bodies, v_topics, v_queues
    from (
        select k.* from mqpg.delayed k
        where k.visible_at > v_due_from and k.visible_at <= _decide_due.due_until
        union all
        select k.* from mqpg.delayed k
        where k.visible_at <= v_due_from and k.xid >= v_from and k.xid < pg_snapshot_xmax(_decide_due.upto)
        union all
        select k.* from mqpg.delayed k where k.visible_at <= v_due_from and k.xid = any(v_late)
    ) as d
    cross join lateral generate_series(0, d.n - 1) as i
    where d.subscription_id = 0 and pg_visible_in_snapshot(d.xid, _decide_due.upto);
    if v_ids is null then
        return false;
    end if;
    v_order := nextval('mqpg.batch_id');
    v_recalling := not pg_try_advisory_xact_lock(1836150839, 0);
    loop
        if v_recalling then
            v_busy := array(
                select case when l.objid::bigint > 2147483647 then l.objid::bigint - 4294967296
                    else l.objid::bigint end::int
                from pg_locks l
                where l.locktype = 'advisory' and l.classid::bigint = 1836150840 and l.objsubid = 2
                    and l.database = (select d.oid from pg_database d where d.datname = current_database()));
        end if;
        begin
            with message as (
                select u.*, hashint8(u.id) <> all(v_busy) as free
                from unnest(v_ids, v_bodies, v_topics, v_queues) as u(id, body, topic_id, queue_id)
            ),
            put_off as (
                insert into mqpg.delayed (
                    visible_at, xid, first_id, deliver_id, n, written_at, topic_id, queue_id)
                select v_until + interval '1 second', pg_current_xact_id(), m.id, m.body, 1, v_now, m.topic_id,
                    m.queue_id
                from message m where not m.free
            )
            insert into mqpg.op_log (message_id, stage, order_no, xid, op, at, topic_id, queue_id, decided_by)
            select m.id, 1, v_order, pg_current_xact_id(), 'd', v_now, m.topic_id, m.queue_id, 'appender'
            from message m where m.free
            order by m.id
            on conflict do nothing;
            return true;
        exception when lock_not_available then
            v_recalling := true;
        end;
    end loop;
end
$$;
comment on function mqpg._decide_due(mqpg.tick, pg_snapshot, timestamptz)
    is 'Internal: decide between due and recall for what a pass delivers';

-- functions/append/_enqueue_halves_sometimes.sql
-- Feeds the op-log queue about once a second: a half decided in milliseconds, as nearly all are, never gets
-- an entry, and none is forgotten, since an entry follows from the half.
-- Locks: as _enqueue_halves. Cost: one index lookup where it is too early.
create function mqpg._enqueue_halves_sometimes(snapshot pg_snapshot, batch_seq bigint) returns void
language plpgsql as $$
declare
    v_last timestamptz := (select h.at from mqpg.half_tick h order by h.half_tick_id desc limit 1);
begin
    if v_last is null or v_last < clock_timestamp() - interval '1 second' then
        perform mqpg._enqueue_halves(_enqueue_halves_sometimes.snapshot, _enqueue_halves_sometimes.batch_seq);
    end if;
end
$$;
comment on function mqpg._enqueue_halves_sometimes(pg_snapshot, bigint)
    is 'Internal: feed the op-log queue about once a second';

-- functions/append/append.sql
-- One pass of the appender: gives every message that became visible since the pass before its place in a
-- consume queue, and returns how many. With the snapshot S0 of the last tick and the current S1 these are
-- the normal sends and the undelayed commit decisions whose xid is visible in S1 and not in S0, ordered by
-- batch id / order number, and what is due: so nothing is skipped however late it commits, a long
-- transaction delays only its own messages, and offsets are dense. max_messages is a target: one
-- transaction is not split.
-- Locks: 1836150834, 0 until the end of its transaction, so passes are one after the other.
-- Cost: an index scan of what is new; an idle pass reads no table rows to speak of and writes nothing.
-- Errors: MQ001, MQ015 (caller has an xid or is not READ COMMITTED), MQ016 (restored into another cluster).
create function mqpg.append(max_messages int default null) returns bigint
-- jit off: estimates of a generic plan over a large log would have every pass compiled
language plpgsql set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off as $$
declare
    v_tick mqpg.tick;
    v_batch_seq bigint;
    v_s1 pg_snapshot;
    v_upto pg_snapshot;     -- S1, or its cut where there is a backlog
    v_due_until timestamptz;
    v_messages bigint;
    v_topic_ids int [];
    v_was_due boolean;      -- something was due, be it that all of it was recalled or put off
begin
    if append.max_messages is not null then
        perform mqpg._check_range('max_messages', append.max_messages, 1, 2147483647);
    end if;
    perform mqpg._check_own_transaction('append');
    -- A pass redone after a crash may order messages otherwise; a consumer that keeps its offset elsewhere
    -- would see one twice and another never.
    perform mqpg._force_sync();
    perform pg_advisory_xact_lock(1836150834, 0);
    select t.* into strict v_tick from mqpg.tick t order by t.tick_id desc limit 1;
    -- The sequence before this pass's own xid: whoever drew a batch id so far has a smaller xid.
    select case when b.is_called then b.last_value else 0 end into v_batch_seq from mqpg.batch_id b;
    v_s1 := pg_current_snapshot();
    perform mqpg._check_cluster(v_tick.snapshot, v_s1);
    perform mqpg._enqueue_halves_sometimes(v_s1, v_batch_seq);
    -- so that a broker whose keeper is away, or which has only this pass in its cron, does not run out of segments
    if random() < 0.004 then
        perform mqpg._make_segments(1);
    end if;
    v_upto := v_s1;
    v_due_until := greatest(v_tick.due_until, clock_timestamp());
    if append.max_messages is not null then
        v_upto := mqpg._cut(v_tick, v_s1, append.max_messages);
        v_due_until := mqpg._cut_due(v_tick.due_until, v_due_until, append.max_messages);
    end if;
    if not mqpg._anything_new(v_tick, v_upto, v_due_until) then
        return 0;
    end if;
    select a.messages, a.topic_ids, a.was_due into v_messages, v_topic_ids, v_was_due
    from mqpg._append_runs(v_tick, v_upto, v_due_until) a;
    if v_messages > 0 or v_was_due then
        insert into mqpg.tick (
            tick_id, xid, snapshot, snapshot_xmax, batch_seq, floor_id, due_until, messages, topic_ids, at)
        values (
            v_tick.tick_id + 1, pg_current_xact_id(), v_upto, pg_snapshot_xmax(v_upto), v_batch_seq,
            greatest(v_tick.floor_id, (
                select k.batch_seq from mqpg.tick k
                where k.xid <= pg_snapshot_xmin(v_upto)
                order by k.xid desc, k.tick_id desc limit 1)),
            v_due_until, v_messages, v_topic_ids, clock_timestamp());
    end if;
    if v_messages > 0 then
        perform pg_notify('mqpg', (v_tick.tick_id + 1)::text);
    end if;
    return v_messages;
end
$$;
comment on function mqpg.append(int) is 'One pass of the appender; returns the number of messages appended';

-- views/half_parked.sql
-- Half messages for which no checker had an answer and whose producer group parks such messages. An
-- administrator decides them with settle() or has them checked again with rearm().
-- Cost: a few index lookups for each archived entry of the op-log queue.
create view mqpg.half_parked as
select
    a.message ->> 'handle' as handle,
    a.message ->> 'producer_group' as producer_group,
    t.name as topic,
    m.born_at as prepared_at,
    m.check_at,
    k.checks,
    r.reason,
    a.archived_at as parked_at
from pgmq.a_mqpg_oplog as a
cross join lateral (values ((a.message ->> 'message_id')::bigint)) as i (message_id)
cross join lateral mqpg._half_row(i.message_id) as m
inner join mqpg.topic as t on m.topic_id = t.topic_id
cross join lateral mqpg._checks(i.message_id) as k
cross join lateral mqpg._last_reason(i.message_id) as r (reason)
where not mqpg._is_decided(i.message_id);
comment on view mqpg.half_parked is
    'Half messages that are parked until an administrator decides them';
comment on column mqpg.half_parked.prepared_at is 'When prepare() stored it';
comment on column mqpg.half_parked.check_at is 'When it was first due for a check';
comment on column mqpg.half_parked.checks is 'Number of checks so far';
comment on column mqpg.half_parked.reason is 'The last reason that a check-back gave';
comment on column mqpg.half_parked.parked_at is 'When it was parked';

-- views/half_pending.sql
-- Half messages that are neither decided nor parked. Each of them has an entry in the op-log queue
-- or is newer than the last time the queue was filled, so the view need not search the whole log.
-- Cost: a few index lookups for each entry of the op-log queue and for each half message of about
-- the last second.
create view mqpg.half_pending as
with newest as materialized (
    select h.snapshot from mqpg.half_tick as h
    order by h.half_tick_id desc
    limit 1
),

candidate as (
    select
        (q.message ->> 'message_id')::bigint as message_id,
        q.vt as check_at
    from pgmq.q_mqpg_oplog as q
    union all
    select
        l.batch_id * 1024 + i.i as message_id,
        l.check_at
    from mqpg.commit_log as l
    cross join lateral generate_series(0, l.n - 1) as i (i)
    where
        l.kind = 'h'
        and l.xid >= coalesce((select pg_snapshot_xmax(n.snapshot) from newest as n), '0'::xid8)
    union all
    select
        l.batch_id * 1024 + i.i as message_id,
        l.check_at
    from mqpg.commit_log as l
    cross join lateral generate_series(0, l.n - 1) as i (i)
    where
        l.kind = 'h'
        and l.xid = any(array(select pg_snapshot_xip(n.snapshot) from newest as n))
)

select
    mqpg._handle(m.incarnation, c.message_id, m.nonce) as handle,
    g.name as producer_group,
    t.name as topic,
    m.born_at as prepared_at,
    c.check_at,
    k.checks,
    r.reason
from candidate as c
cross join lateral mqpg._half_row(c.message_id) as m
inner join mqpg.topic as t on m.topic_id = t.topic_id
left join mqpg.producer_group as g on m.producer_group_id = g.producer_group_id
cross join lateral mqpg._checks(c.message_id) as k
cross join lateral mqpg._last_reason(c.message_id) as r (reason)
where not mqpg._is_decided(c.message_id);
comment on view mqpg.half_pending is 'Half messages that are neither decided nor parked';
comment on column mqpg.half_pending.prepared_at is 'When prepare() stored it';
comment on column mqpg.half_pending.check_at is 'When its next check is due';
comment on column mqpg.half_pending.checks is 'Number of checks so far';
comment on column mqpg.half_pending.reason is 'The last reason that a check-back gave';

-- views/losses.sql
-- Messages that consumer groups lost by a policy of the topic (lose_after, lose_over), newest
-- first. Offsets that a group was moved over by seek() or purge_topic() are no losses.
-- Cost: reads the table of skipped offsets once.
create view mqpg.losses as
select
    j.at,
    j.topic,
    j.consumer_group,
    nullif(j.member, '') as consumer,
    j.queue_id,
    j.from_offset,
    j.to_offset,
    j.to_offset - j.from_offset as messages,
    j.why,
    j.by
from mqpg.jump as j
where j.why in ('age', 'size') and not j.back
order by j.jump_id desc;
comment on view mqpg.losses is
    'Messages that consumer groups lost by a policy of the topic, newest first';
comment on column mqpg.losses.consumer is 'Mode broadcast: the consumer that lost them; else null';
comment on column mqpg.losses.queue_id is '-1: the retry lane';
comment on column mqpg.losses.from_offset is 'First offset that was lost';
comment on column mqpg.losses.to_offset is 'Offset after the last one that was lost';
comment on column mqpg.losses.messages is 'Number of offsets in between';
comment on column mqpg.losses.why is 'age (lose_after) | size (lose_over)';

-- views/orphans.sql
-- Messages that no group will get, because their topic was dropped while their transaction was
-- open. send() and commit() take no lock on the topic, so this can happen.
-- Cost: for each dropped topic, its rows in the consume queues and the undecided half messages.
create view mqpg.orphans as
select
    d.name as topic,
    d.topic_id,
    d.dropped_at,
    d.forced,
    (
        select coalesce(sum(c.n), 0)
        from mqpg.consume_queue as c
        inner join mqpg.tick as t on c.tick_id = t.tick_id
        where c.topic_id = d.topic_id and c.subscription_id = 0 and t.at > d.dropped_at
    ) as messages,
    (
        select count(*)
        from pgmq.q_mqpg_oplog as q
        cross join lateral (values ((q.message ->> 'message_id')::bigint)) as i (message_id)
        cross join lateral mqpg._message(i.message_id) as m
        where m.topic_id = d.topic_id and not mqpg._is_decided(i.message_id)
    ) as undecided
from mqpg.dropped_topic as d;
comment on view mqpg.orphans is 'Messages of dropped topics that arrived after the drop';
comment on column mqpg.orphans.forced is 'Whether drop_topic() was called with force';
comment on column mqpg.orphans.messages is 'Number of messages that became visible after the drop';
comment on column mqpg.orphans.undecided is 'Number of its half messages that can still be decided';

-- views/pins.sql
-- Unread messages that keep closed segments from being dropped: for each group (or member of a
-- broadcast group) and queue, which offsets of the segment it has not read, and about how many
-- bytes these are.
-- Cost: a few index lookups for each closed segment and each queue of each subscription.
create view mqpg.pins as
select
    p.consumer_group,
    nullif(p.member, '') as consumer,
    p.topic,
    p.queue_id,
    p.segment_no,
    p.closed_at,
    clock_timestamp() - p.closed_at as age,
    p.from_offset,
    p.to_offset,
    p.messages,
    p.bytes
from mqpg._pins() as p;
comment on view mqpg.pins is 'Unread messages that keep closed segments from being dropped';
comment on column mqpg.pins.consumer is 'Mode broadcast: the consumer; else null';
comment on column mqpg.pins.queue_id is '-1: the retry lane';
comment on column mqpg.pins.segment_no is 'The closed tick segment that cannot be dropped';
comment on column mqpg.pins.age is 'Time since the segment was closed';
comment on column mqpg.pins.from_offset is 'First unread offset in the segment';
comment on column mqpg.pins.to_offset is 'Offset after the last one in the segment';
comment on column mqpg.pins.messages is 'Number of offsets in between';
comment on column mqpg.pins.bytes is 'About how many bytes the messages take';

-- views/queue_depth.sql
-- What each queue holds: the messages at the offsets from oldest_offset to next_offset - 1.
-- Cost: two index lookups per partition for each queue.
create view mqpg.queue_depth as
select
    t.name as topic,
    q.queue_id,
    mqpg._oldest(t.topic_id, q.queue_id, 0) as oldest_offset,
    mqpg._tail(t.topic_id, q.queue_id, 0) as next_offset
from mqpg.topic as t
cross join lateral generate_series(0, t.queues - 1) as q (queue_id);
comment on view mqpg.queue_depth is 'Oldest and next offset of each queue';
comment on column mqpg.queue_depth.oldest_offset is 'The first offset that can still be read';
comment on column mqpg.queue_depth.next_offset is 'The offset that the next appended message gets';

-- views/subscription_lag.sql
-- How far each subscription has come on each queue.
-- Cost: two index lookups per partition for each queue of each subscription.
create view mqpg.subscription_lag as
select
    s.consumer_group,
    t.name as topic,
    q.queue_id,
    c.committed,
    n.next_offset,
    n.next_offset - c.committed as lag,
    p.claims,
    coalesce(c.owner, nullif(s.member, '')) as owner,
    s.mode
from mqpg.subscription as s
inner join mqpg.topic as t on s.topic_id = t.topic_id
cross join lateral generate_series(-1, t.queues - 1) as q (queue_id)
cross join lateral (
    select
        k.committed,
        k.claims,
        k.owner
    from mqpg.cursor as k
    where k.subscription_id = s.subscription_id and k.queue_id = q.queue_id
    order by k.version desc
    limit 1
) as c
cross join lateral (
    select count(*)::int as claims from unnest(c.claims) as u
    where u.epoch > 0
) as p
cross join lateral mqpg._tail(
    s.topic_id, q.queue_id, case when q.queue_id = -1 then s.subscription_id else 0 end
) as n (next_offset)
where s.mode <> 'broadcast' or s.member <> '';
comment on view mqpg.subscription_lag is 'Position and lag of each subscription on each queue';
comment on column mqpg.subscription_lag.queue_id is '-1: the subscription''s retry lane';
comment on column mqpg.subscription_lag.committed is 'All messages below this offset are done';
comment on column mqpg.subscription_lag.next_offset is
    'The offset that the next appended message gets';
comment on column mqpg.subscription_lag.lag is
    'Number of messages that are not acknowledged, in flight or not';
comment on column mqpg.subscription_lag.claims is 'Number of open deliveries';
comment on column mqpg.subscription_lag.owner is
    'Mode pinned: the consumer that owns the queue; mode broadcast: the member; else null';

-- views/topics.sql
-- Topics and their settings.
-- Cost: one row per topic.
create view mqpg.topics as
select
    t.name as topic,
    t.kind,
    t.queues,
    t.retention,
    t.paused,
    t.max_payload,
    t.message_ttl,
    t.on_expired,
    t.lose_after,
    t.lose_over,
    t.created_at
from mqpg.topic as t;
comment on view mqpg.topics is 'Topics and their settings';
comment on column mqpg.topics.kind is 'normal | relay';
comment on column mqpg.topics.queues is 'Number of ordered queues';
comment on column mqpg.topics.paused is 'true: receive() returns nothing to any group';
comment on column mqpg.topics.max_payload is 'Greatest size of a payload, in bytes';
comment on column mqpg.topics.message_ttl is
    'A message that a group did not get within this time after it became visible expires; null: never';
comment on column mqpg.topics.on_expired is 'skip (counts as consumed) | dead_letter';
comment on column mqpg.topics.lose_after is
    'Unread messages may be dropped this long after their segment was closed; null: never';
comment on column mqpg.topics.lose_over is
    'Unread messages of a group may be dropped beyond this many bytes; null: never';

-- views/worker_status.sql
-- Worker processes, and whether they are alive.
-- Cost: one row per worker.
create view mqpg.worker_status as
select
    w.worker_id,
    w.role,
    w.host,
    w.pid,
    w.state,
    w.state <> 'stopped' and w.seen_at > clock_timestamp() - interval '30 seconds' as alive,
    w.started_at,
    w.seen_at,
    w.detail
from mqpg.worker as w;
comment on view mqpg.worker_status is 'Worker processes and whether they are alive';
comment on column mqpg.worker_status.role is 'appender | compensator | keeper | consumer';
comment on column mqpg.worker_status.state is 'active | standby | stopped';
comment on column mqpg.worker_status.alive is
    'Not stopped, and its last heartbeat is at most 30 s old';
comment on column mqpg.worker_status.seen_at is 'Time of the last heartbeat';
comment on column mqpg.worker_status.detail is 'What the worker reports about its work';

-- triggers/settings_check.sql
-- Validates a setting before it is stored: its value must lie between `least` and `most`.
-- Cost: negligible.
create trigger settings_check before insert or update on mqpg.settings
for each row execute function mqpg._check_setting();

-- triggers/settings_dedup_window.sql
-- Renumbers the known dedup ids when the setting dedup_window changes, because their slots are
-- numbered in units of it.
-- Locks: the keeper's lock, and ACCESS EXCLUSIVE on dedup.
-- Cost: one row for each known dedup id, and DDL.
create trigger settings_dedup_window after update on mqpg.settings
for each row when (new.name = 'dedup_window' and new.value::interval <> old.value::interval)
execute function mqpg._renumber_dedup();

-- start.sql
-- The last step of an installation: it makes the first partitions and a first tick whose snapshot
-- sees no transaction, so that the queue works at once, without any worker.
select mqpg._make_segments();
insert into mqpg.tick (
    tick_id, xid, snapshot, snapshot_xmax, batch_seq, floor_id, due_until, messages, topic_ids, at)
values (0, '2', '2:2:', '2', 0, 0, '-infinity', 0, '{}', clock_timestamp());
insert into mqpg.half_tick (half_tick_id, xid, snapshot, snapshot_xmax, batch_seq, floor_id, entries, at)
values (0, '2', '2:2:', '2', 0, 0, 0, clock_timestamp());
