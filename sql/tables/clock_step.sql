-- Steps of the server's clock that append() has noticed: when, and how far. Append-only.
create table mqpg.clock_step (
    step_id bigint generated always as identity primary key,
    at timestamptz not null,  -- The server's time after the step
    by interval not null,  -- How far it went back; negative: forward again
    ahead interval not null,  -- By how much the broker's time is ahead of the server's since then
    dead_letters bigint not null  -- Messages that became dead letters while the clock was ahead; their reasons say so
);
