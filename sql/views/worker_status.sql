-- Worker processes and whether they are alive.
-- Cost: one row per worker.
create view mqpg.worker_status as
select w.worker_id, w.role, w.host, w.pid, w.state,
    w.state <> 'stopped' and w.seen_at > clock_timestamp() - interval '30 seconds' as alive, w.started_at, w.seen_at,
    w.detail
from mqpg.worker as w;
comment on column mqpg.worker_status.role is 'appender | compensator | keeper | consumer | audit';
comment on column mqpg.worker_status.state is 'active | standby | stopped';
comment on column mqpg.worker_status.alive is 'Not stopped, and its last heartbeat is at most 30 s old';
comment on column mqpg.worker_status.seen_at is 'Time of the last heartbeat';
comment on column mqpg.worker_status.detail is 'What the worker reports about its work';
