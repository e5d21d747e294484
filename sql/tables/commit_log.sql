-- Commit log: all message bodies in record batches, append-only, partitioned by batch id. One row
-- is a record batch of up to 1024 messages, and a message's id is batch_id * 1024 + its position in
-- the batch.
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
    relay boolean,
    checksum bigint
) partition by range (batch_id);
comment on column mqpg.commit_log.batch_id is 'From the sequence batch_id, drawn after xid';
comment on column mqpg.commit_log.xid is 'The writing transaction; the appender compares it with its snapshots';
comment on column mqpg.commit_log.producer_group_id is 'Half messages only';
comment on column mqpg.commit_log.incarnation is
    'Half messages only: the broker''s incarnation when it was prepared, part of its handle';
comment on column mqpg.commit_log.queue_id is 'The topic''s queue that all messages of the batch belong to';
comment on column mqpg.commit_log.n is 'Number of messages in the batch, 1 to 1024';
comment on column mqpg.commit_log.kind is
    'n normal | h half message | d delayed | f final payload that a commit brought for a half';
comment on column mqpg.commit_log.nonce is
    'Half messages only: the secret of the batch, from which the nonces of its handles are computed';
comment on column mqpg.commit_log.check_at is 'Half messages only: from this time on an undecided one is overdue';
comment on column mqpg.commit_log.delay is 'Half messages only: time between the commit and the delivery; null: none';
comment on column mqpg.commit_log.keys is 'One element per message (null: without key); null when no message has a key';
comment on column mqpg.commit_log.tags is 'One element per message; null when no message has a tag';
comment on column mqpg.commit_log.headers is 'One element per message; null when no message has headers';
comment on column mqpg.commit_log.payloads is 'One element per message, byte for byte as sent';
comment on column mqpg.commit_log.relay is
    'true: half messages of a relay topic, whose phases also travel as messages; else null';
comment on column mqpg.commit_log.checksum is
    'Of all contents, see _checksum(); of an earlier release, of the bodies; null: the topic did not ask for it';

create unique index commit_log_batch on mqpg.commit_log (batch_id);
alter table mqpg.commit_log replica identity using index commit_log_batch;
create index commit_log_normal_xid on mqpg.commit_log (xid) where kind = 'n';
create index commit_log_half_xid on mqpg.commit_log (xid) where kind = 'h';
create index commit_log_keys on mqpg.commit_log using gin (keys) where keys is not null;

-- lz4 where the server has it. pglz would cost a third of the write speed, so the fallback is no
-- compression.
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
