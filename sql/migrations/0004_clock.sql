-- Adds the broker's own time, which does not go back with the server's clock.
-- breaking: no
create table mqpg.clock (
    singleton boolean primary key default true check (singleton),
    ahead interval not null default '0',
    seen_at timestamptz not null default clock_timestamp()
);
comment on column mqpg.clock.singleton is 'Always true: the table has exactly one row';
comment on column mqpg.clock.ahead is 'The broker''s time minus the server''s';
comment on column mqpg.clock.seen_at is 'While it is ahead: the server''s time at the last append(), to the second';
insert into mqpg.clock default values;
create table mqpg.clock_step (
    step_id bigint generated always as identity primary key,
    at timestamptz not null,
    by interval not null,
    ahead interval not null,
    dead_letters bigint not null
);
comment on column mqpg.clock_step.at is 'The server''s time after the step';
comment on column mqpg.clock_step.by is 'How far it went back; negative: forward again';
comment on column mqpg.clock_step.ahead is 'By how much the broker''s time is ahead of the server''s since then';
comment on column mqpg.clock_step.dead_letters is
    'Messages that became dead letters while the clock was ahead; their reasons say so';
comment on table mqpg.clock is
    'By how much the broker''s own time is ahead of the server''s clock';
comment on table mqpg.clock_step is
    'Steps of the server''s clock that append() has noticed: when, and how far';
