-- Who this broker is. A handle names the broker that issued it; incarnation counts its lives
-- (promotion, restore); system_identifier tells a restored copy from the original.
create table mqpg.broker (
    singleton boolean primary key default true check (singleton),
    broker_id text not null default substr(replace(gen_random_uuid()::text, '-', ''), 1, 12),
    incarnation int not null default 1,
    system_identifier bigint not null,
    installed_at timestamptz not null default clock_timestamp()
);
comment on table mqpg.broker is 'Identity of this broker: id, incarnation, PostgreSQL system identifier';
insert into mqpg.broker (system_identifier) select system_identifier from pg_control_system();
