-- Heartbeats of worker processes; see the view worker_status.
create table mqpg.worker (
    worker_id text primary key,
    role text not null,  -- appender | compensator | keeper | consumer | audit
    host text not null,
    pid int not null,
    state text not null,  -- active | standby | stopped
    detail jsonb not null default '{}',  -- What the worker reports about its work
    started_at timestamptz not null default clock_timestamp(),
    seen_at timestamptz not null default clock_timestamp(),  -- Time of the last heartbeat
    reported_by text not null default ''  -- The role that reports; nobody else may
);
