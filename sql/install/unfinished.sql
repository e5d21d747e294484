-- What an uninstallation would lose, in words: one row with an array, empty if there is nothing.
-- What no tick has seen is not in subscription_lag: messages that were just sent or committed, and
-- delayed messages and retries that are not yet due.
-- Locks: none. Cost: reads what is not yet delivered.
with newest as materialized (
    select t.* from mqpg.tick as t
    order by t.tick_id desc
    limit 1
),

fresh (messages) as (
    select c.n::bigint from newest as t, mqpg.commit_log as c
    where c.kind = 'n' and c.xid >= pg_snapshot_xmin(t.snapshot) and not pg_visible_in_snapshot(c.xid, t.snapshot)
    union all
    select 1 from newest as t, mqpg.op_log as o
    where o.op = 'c' and o.visible_at is null
        and o.xid >= pg_snapshot_xmin(t.snapshot) and not pg_visible_in_snapshot(o.xid, t.snapshot)
),

later as (
    select d.* from newest as t, mqpg.delayed as d
    where d.visible_at > t.due_until
        or (d.xid >= pg_snapshot_xmin(t.snapshot) and not pg_visible_in_snapshot(d.xid, t.snapshot))
),

waiting (messages) as (
    select count(*) from (
        select d.first_id + i from later as d cross join lateral generate_series(0, d.n - 1) as i
        where d.subscription_id = 0
        except
        select o.message_id from mqpg.op_log as o
        where o.stage = 1
    ) as m
    union all
    select d.n from later as d inner join mqpg.subscription as s on d.subscription_id = s.subscription_id
    where not coalesce(s.retries_from > d.written_at, false)
)

select array_remove(array[
    (select nullif(coalesce(sum(l.lag), 0), 0) || ' undelivered messages' from mqpg.subscription_lag as l),
    (select nullif(coalesce(sum(f.messages), 0), 0) || ' messages not yet appended' from fresh as f),
    (select nullif(coalesce(sum(w.messages), 0), 0) || ' messages not yet due' from waiting as w),
    (select nullif(count(*), 0) || ' undecided half messages' from mqpg.half_pending),
    (select nullif(count(*), 0) || ' parked half messages' from mqpg.half_parked),
    (select nullif(count(*), 0) || ' dead letters' from mqpg.dead_letter),
    (
        select nullif(count(*), 0) || ' running workers' from mqpg.worker_status as w
        where w.alive and w.pid > 0 and w.role <> 'audit'
    )
], null);
