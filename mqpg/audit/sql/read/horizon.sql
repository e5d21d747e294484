-- How far the appender is, and what retention has dropped: a single row. What earlier audits have
-- judged counts as dropped. Then the oldest tick is the last judged one, which saw exactly what the
-- judged ticks have appended.
-- Segments are dropped whole, or their messages of some topics were left out when segments merged.
-- The oldest tick is the first one whose rows in consume_queue all survive. An earlier tick, whose
-- rows are dropped, may have appended what this tick's snapshot sees.
-- Retention drops decisions later than bodies, and none while a half message is undecided.
-- floor_id: the newest tick has seen all batch ids up to this one. newest_id: the newest
-- batch id at the time of the newest tick. had_others: there may have been
-- subscriptions that are gone, because ids of subscriptions ascend without end.
-- delayed_from: rows of delayed from after this time are there.
-- next_xid: no transaction has this id or a greater one. Null: the rows are of another cluster.
-- noted_until: the ends of queues in ticks before it are noted beside the queues.
-- jumps_purged_before: position jumps from before this time may have been deleted. dedup_window: in
-- seconds.
select
    newest.snapshot::pg_snapshot as newest_snapshot, newest.due_until as newest_due,
    coalesce(newest.floor_id, 0) as floor_id,
    coalesce(newest.batch_seq, 0) as newest_id,
    oldest.snapshot::pg_snapshot as oldest_snapshot, oldest.due_until as oldest_due,
    gone.ticks_dropped or j.last_tick >= 0 as ticks_dropped,
    gone.ticks_dropped as queues_dropped,
    gone.dropped_ids + int8multirange(int8range(0, j.until_id)) as dropped_ids,
    gone.dropped_decisions, gone.delayed_from, gone.noted_until,
    case
        when (select v.system_identifier from mqpg_audit.version as v) = (select c.system_identifier from pg_control_system() as c)
            then pg_snapshot_xmax(pg_current_snapshot())
    end as next_xid,
    known.others or exists (
        select from mqpg_audit.position_change as c where c.subscription_id > known.newest
    ) as had_others,
    now() - (
        select t.value::interval from mqpg_audit.setting as t where t.name = 'position_jump_keep'
    ) as jumps_purged_before,
    (
        select extract(epoch from t.value::interval)::float8 from mqpg_audit.setting as t where t.name = 'dedup_window'
    ) as dedup_window
from (
    select
        coalesce(bool_or(s.family = 'tick' and s.dropped), false) as ticks_dropped,
        coalesce(max(case when s.family = 'tick' and s.dropped then s.upper_bound end), 0) as first_tick,
        coalesce(range_agg(s.ids) filter (where s.dropped), '{}') as dropped_ids,
        coalesce(range_agg(s.ids) filter (where s.decisions_dropped), '{}') as dropped_decisions,
        coalesce(max(s.delayed_until) filter (where s.gone), '-infinity') as delayed_from,
        coalesce(max(case when s.noted then s.upper_bound end), 0) as noted_until
    from (
        select
            g.family, g.upper_bound,
            g.dropped_at is not null or g.left_out <> '{}' as dropped,
            g.decisions_dropped_at is not null or coalesce(g.leaving in ('op_log', 'check_log'), false) as decisions_dropped,
            case g.family
                when 'log' then int8range(g.lower_bound * 1024, g.upper_bound * 1024)
            end as ids,
            case g.family when 'delayed' then greatest(g.upper_time, g.closed_at) end as delayed_until,
            g.dropped_at is not null as gone,
            g.tails_noted_at is not null as noted
        from mqpg_audit.segment as g
        where g.family in ('log', 'tick', 'delayed')
    ) as s
) as gone
cross join judged as j
cross join (
    select count(*) < coalesce(max(n.subscription_id), 0) as others, coalesce(max(n.subscription_id), 0) as newest
    from (
        select s.subscription_id from mqpg_audit.subscription as s
        union all
        select g.subscription_id from mqpg_audit.broadcast_group as g
    ) as n
) as known
left join lateral (
    select t.snapshot, coalesce(t.due_until, '-infinity') as due_until, t.floor_id, t.batch_seq from mqpg_audit.tick as t order by t.tick_id desc limit 1
) as newest on true
left join lateral (
    select t.snapshot, coalesce(t.due_until, '-infinity') as due_until from mqpg_audit.tick as t
    where t.tick_id >= case when gone.first_tick > j.last_tick then gone.first_tick else j.last_tick end
    order by t.tick_id limit 1
) as oldest on true
