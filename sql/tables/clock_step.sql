-- Steps of the server's clock that append() has noticed: when, and how far. Append-only.
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
