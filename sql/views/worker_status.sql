-- Worker processes and whether they are alive. Pid 0 is a role whose function is called instead, as
-- by pg_cron.
-- Cost: one row per worker.
create view mqpg.worker_status as
select w.worker_id, w.role, w.host, w.pid, w.state,
    w.state <> 'stopped'
        and w.seen_at > clock_timestamp() - case w.pid when 0 then interval '5 minutes' else interval '30 seconds' end
        as alive,
    w.started_at, w.seen_at, w.detail
from mqpg.worker as w;
-- role: appender | compensator | keeper | consumer | audit
-- pid: Process id; 0: its function is called, as by pg_cron
-- state: active | standby | stopped
-- alive: Not stopped, and heard of within 30 s, or 5 minutes with pid 0
-- seen_at: Time of the last heartbeat
-- detail: What the worker reports about its work
