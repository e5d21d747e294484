-- Identity of this broker: id, incarnation and PostgreSQL system identifier. One row. Every handle
-- names the broker that issued it.
create table mqpg.broker (
    singleton boolean primary key default true check (singleton),
    broker_id text not null default substr(replace(gen_random_uuid()::text, '-', ''), 1, 12),
    incarnation int not null default 1,
    system_identifier bigint not null,
    database_oid oid,
    timeline text not null,
    key_hash_seed bigint not null
    default ('x' || encode(substr(uuid_send(gen_random_uuid()), 1, 8), 'hex'))::bit(64)::bigint,
    installed_at timestamptz not null default clock_timestamp(),
    adoption_ticks bigint [] not null default '{}'
);
comment on column mqpg.broker.singleton is 'Always true: the table has exactly one row';
comment on column mqpg.broker.broker_id is
    '12 hexadecimal digits; the first part of every handle that this broker issues';
comment on column mqpg.broker.incarnation is
    'Number of this broker''s lives: it grows with each promotion, recovery or restore; part of each handle';
comment on column mqpg.broker.system_identifier is
    'The cluster that the rows were written in; append() refuses to work in another one';
comment on column mqpg.broker.database_oid is
    'The database that the rows were written in; append() refuses to work in a copy of it on the same cluster';
comment on column mqpg.broker.timeline is
    'The timeline that the rows were written in; append() refuses to work in another one';
comment on column mqpg.broker.key_hash_seed is 'A secret, with which the views of the audit compute hashes of keys';
comment on column mqpg.broker.adoption_ticks is
    'The tick with which each incarnation but the first began; the last one is that of the present incarnation';
insert into mqpg.broker (system_identifier, database_oid, timeline)
select
    system_identifier,
    (
        select d.oid from pg_database as d
        where d.datname = current_database()
    ) as database_oid,
    left(pg_walfile_name(pg_current_wal_insert_lsn()), 8) as timeline
from pg_control_system();
