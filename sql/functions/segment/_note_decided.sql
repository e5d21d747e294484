-- Notes the closed log segments about whose messages no decision can come any more, and whose
-- decisions have their offsets: append() need not look for commits there. No half message is
-- undecided: every one was visible when half messages were last put into the check queue, and
-- neither that queue nor its archive has an entry of one. None is in held, where a half message may
-- be that no call had looked at before its segment was dropped. No delayed message is pending, and
-- no commit waits for append().
-- Locks: the rows of segment.
-- Cost: reads the check queue once while there are such segments; a few index ranges for each.
create function mqpg._note_decided() returns void
language plpgsql as $$
declare
    v_tick mqpg.tick;
    v_half_snapshot pg_snapshot := (select h.snapshot from mqpg.half_tick h order by h.half_tick_id desc limit 1);
    v_entries bigint [];
begin
    if not exists (
        select from mqpg.segment s
        where s.family = 'log' and s.decided_at is null and s.dropped_at is null and s.closed_at is not null
    ) then
        return;
    end if;
    select t.* into v_tick from mqpg.tick t order by t.tick_id desc limit 1;
    v_entries := array(
        select distinct (e.message ->> 'message_id')::bigint / 1024
        from (select q.message from pgmq.q_mqpg_oplog q union all select a.message from pgmq.a_mqpg_oplog a) as e);
    update mqpg.segment s set decided_at = clock_timestamp()
    where s.family = 'log' and s.decided_at is null and s.dropped_at is null and s.closed_at is not null
        and not exists (
            select from unnest(v_entries) as e(batch_id)
            where e.batch_id >= s.lower_bound::bigint and e.batch_id < s.upper_bound::bigint)
        and not exists (
            select from mqpg.commit_log l
            where l.kind = 'h' and l.batch_id >= s.lower_bound::bigint and l.batch_id < s.upper_bound::bigint
                and (v_half_snapshot is null or l.xid >= pg_snapshot_xmin(v_half_snapshot))
                and (v_half_snapshot is null or not pg_visible_in_snapshot(l.xid, v_half_snapshot)))
        and not exists (
            select from mqpg.held h
            where h.kind = 'h' and h.message_id >= s.lower_bound::bigint * 1024
                and h.message_id < s.upper_bound::bigint * 1024
                and not exists (select from mqpg.op_log o where o.message_id = h.message_id and o.stage = 0))
        and not exists (
            select from mqpg.delayed d
            where d.subscription_id = 0 and d.first_id >= s.lower_bound::bigint * 1024 - 1023
                and d.first_id < s.upper_bound::bigint * 1024
                and (d.visible_at > v_tick.due_until or not pg_visible_in_snapshot(d.xid, v_tick.snapshot)))
        and not exists (
            select from mqpg.op_log o
            where o.message_id >= s.lower_bound::bigint * 1024 and o.message_id < s.upper_bound::bigint * 1024
                and o.op = 'c' and o.visible_at is null and o.xid >= pg_snapshot_xmin(v_tick.snapshot)
                and not pg_visible_in_snapshot(o.xid, v_tick.snapshot));
end
$$;
