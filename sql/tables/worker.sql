-- Heartbeats of worker processes.
create table mqpg.worker (
    worker_id text primary key,
    role text not null,             -- appender | compensator | keeper | consumer
    host text not null,
    pid int not null,
    state text not null,            -- active | standby | stopped
    detail jsonb not null default '{}',
    started_at timestamptz not null default clock_timestamp(),
    seen_at timestamptz not null default clock_timestamp()
);
comment on table mqpg.worker is 'Heartbeats of worker processes; see the view worker_status';
