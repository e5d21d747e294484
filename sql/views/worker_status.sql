-- Worker processes; alive: heard of within 30 s and not stopped.
-- Cost: one row a worker.
create view mqpg.worker_status as
select
    w.worker_id,
    w.role,
    w.host,
    w.pid,
    w.state,
    w.state <> 'stopped' and w.seen_at > clock_timestamp() - interval '30 seconds' as alive,
    w.started_at,
    w.seen_at,
    w.detail
from mqpg.worker as w;
comment on view mqpg.worker_status is 'Worker processes and whether they are alive';
