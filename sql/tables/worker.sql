-- Heartbeats of worker processes; see the view worker_status.
create table mqpg.worker (
    worker_id text primary key,
    role text not null,
    host text not null,
    pid int not null,
    state text not null,
    detail jsonb not null default '{}',
    started_at timestamptz not null default clock_timestamp(),
    seen_at timestamptz not null default clock_timestamp(),
    reported_by text not null default ''
);
comment on column mqpg.worker.role is 'appender | compensator | keeper | consumer | audit';
comment on column mqpg.worker.state is 'active | standby | stopped';
comment on column mqpg.worker.detail is 'What the worker reports about its work';
comment on column mqpg.worker.seen_at is 'Time of the last heartbeat';
comment on column mqpg.worker.reported_by is 'The role that reports; nobody else may';
