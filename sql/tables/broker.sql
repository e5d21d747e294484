-- Identity of this broker: id, incarnation and PostgreSQL system identifier. One row. Every handle
-- names the broker that issued it.
create table mqpg.broker (
    singleton boolean primary key default true check (singleton),  -- Always true: the table has exactly one row
    -- 12 hexadecimal digits; the first part of every handle that this broker issues
    broker_id text not null default substr(replace(gen_random_uuid()::text, '-', ''), 1, 12),
    -- Number of this broker's lives: it grows with each promotion, recovery or restore; part of each handle
    incarnation int not null default 1,
    -- The cluster that the rows were written in; append() refuses to work in another one
    system_identifier bigint not null,
    -- The database that the rows were written in; append() refuses to work in a copy of it on the same cluster
    database_oid oid,
    timeline text not null,  -- The timeline that the rows were written in; append() refuses to work in another one
    -- A secret, with which the views of the audit compute hashes of keys
    key_hash_seed bigint not null
    default ('x' || encode(substr(uuid_send(gen_random_uuid()), 1, 8), 'hex'))::bit(64)::bigint,
    installed_at timestamptz not null default clock_timestamp(),
    -- The tick with which each incarnation but the first began; the last one is that of the present incarnation
    adoption_ticks bigint [] not null default '{}'
);
insert into mqpg.broker (system_identifier, database_oid, timeline)
select
    system_identifier,
    (
        select d.oid from pg_database as d
        where d.datname = current_database()
    ) as database_oid,
    left(pg_walfile_name(pg_current_wal_insert_lsn()), 8) as timeline
from pg_control_system();
