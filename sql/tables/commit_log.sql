-- Commit log: all message bodies in record batches, append-only, partitioned by batch id. One row
-- is a record batch of up to 1024 messages, and a message's id is batch_id * 1024 + its position in
-- the batch.
-- A writer takes its xid first and its batch id second. The other order would break commit order
-- (I6), and the appender, which skips all batch ids up to floor_id, could miss the row. The
-- sequence has CACHE 1 for the same reason.
create sequence mqpg.batch_id as bigint minvalue 1 start 1 cache 1;
comment on sequence mqpg.batch_id is 'Source of batch ids and of op_log.order_no, so that both share one order';

create table mqpg.commit_log (
    batch_id bigint not null,  -- From the sequence batch_id, drawn after xid
    xid xid8 not null,  -- The writing transaction; the appender compares it with its snapshots
    born_at timestamptz not null,
    topic_id int not null,
    producer_group_id int,  -- Half messages only
    incarnation int,  -- Half messages only: the broker's incarnation when it was prepared, part of its handle
    queue_id smallint not null,  -- The topic's queue that all messages of the batch belong to
    n smallint not null,  -- Number of messages in the batch, 1 to 1024
    kind "char" not null,  -- n normal | h half message | d delayed | f final payload that a commit brought for a half
    nonce uuid,  -- Half messages only: the secret of the batch, from which the nonces of its handles are computed
    check_at timestamptz,  -- Half messages only: from this time on an undecided one is overdue
    delay interval,  -- Half messages only: time between the commit and the delivery; null: none
    keys text [],  -- One element per message (null: without key); null when no message has a key
    tags text [],  -- One element per message; null when no message has a tag
    headers jsonb [],  -- One element per message; null when no message has headers
    payloads json [] not null,  -- One element per message, byte for byte as sent
    relay boolean,  -- true: half messages of a relay topic, whose phases also travel as messages; else null
    -- Of all contents, see _checksum(); of an earlier release, of the bodies; null: the topic did not ask for it
    checksum bigint
) partition by range (batch_id);

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
