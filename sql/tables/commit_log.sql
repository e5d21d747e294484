-- Every message body, append-only: one row is a record batch, message id = batch_id * 1024 + position.
-- Writers take their xid first and then the batch id: the other order would break commit order (I6) and
-- let the appender's floor_id hide the row. The sequence has CACHE 1 for the same reason.
create sequence mqpg.batch_id as bigint minvalue 1 start 1 cache 1;
comment on sequence mqpg.batch_id is 'Batch ids and the order numbers of decisions: one order for both';

create table mqpg.commit_log (
    batch_id bigint not null,
    xid xid8 not null,
    born_at timestamptz not null,
    topic_id int not null,
    producer_group_id int,          -- halves
    incarnation int,                -- halves: the broker's when it was prepared, part of its handle
    queue_id smallint not null,
    n smallint not null,
    kind "char" not null,           -- n normal, h half, d delayed, f final payload of a half
    nonce uuid,                     -- halves: what makes a handle unguessable
    check_at timestamptz,           -- halves: when an undecided one is overdue
    delay interval,                 -- halves: counts from the commit
    keys text [],
    tags text [],
    headers jsonb [],
    payloads json [] not null,
    relay boolean                   -- true: halves of a relay topic, whose phases travel as messages
) partition by range (batch_id);
comment on table mqpg.commit_log is
    'Commit log: all message bodies in record batches, append-only, partitioned by batch id';

create unique index commit_log_batch on mqpg.commit_log (batch_id);
create index commit_log_normal_xid on mqpg.commit_log (xid) where kind = 'n';
create index commit_log_half_xid on mqpg.commit_log (xid) where kind = 'h';
create index commit_log_keys on mqpg.commit_log using gin (keys) where keys is not null;

-- pglz costs a third of the write speed; without lz4 plain TOAST is the better choice.
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
