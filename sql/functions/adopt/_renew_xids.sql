-- Rewrites the transaction ids of all rows after a restore into another cluster. A row that the
-- newest tick saw has its offset, so it gets '2', which every snapshot sees, or '1' if its offset
-- was dropped with its tick, which the audit distinguishes. A row that is still to be appended gets
-- the caller's own xid, so that the next append() finds it. So does a half message that still needs
-- an entry in the check queue, even if its old entry was not restored.
-- Locks: ACCESS EXCLUSIVE on all hot tables. Cost: writes each row of them.
create function mqpg._renew_xids(last_tick mqpg.tick) returns void
language plpgsql as $$
declare
    v_own xid8 := pg_current_xact_id();
    v_new pg_snapshot := (_renew_xids.last_tick).snapshot;
    v_half pg_snapshot := (select h.snapshot from mqpg.half_tick h order by h.half_tick_id desc limit 1);
    v_old pg_snapshot := (
        select t.snapshot from mqpg.tick t
        where t.tick_id >= (
            select max(s.upper_bound::bigint) from mqpg.segment s
            where s.family = 'tick' and (s.body_dropped_at is not null or s.left_out <> '{}'))
        order by t.tick_id limit 1);
    v_unasked bigint [];
begin
    lock table mqpg.commit_log, mqpg.op_log, mqpg.delayed, mqpg.held, mqpg.tick, mqpg.half_tick
        in access exclusive mode;
    v_unasked := array(
        select distinct l.message_id / 1024
        from (
            select h.batch_id * 1024 + i as message_id
            from mqpg.commit_log h cross join generate_series(0, h.n - 1) i where h.kind = 'h'
            union all
            select h.message_id from mqpg.held h where h.kind = 'h'
        ) as l
        where not exists (select from mqpg.op_log o where o.message_id = l.message_id and o.stage = 0)
            and not exists (
                select from pgmq.q_mqpg_oplog q where (q.message ->> 'message_id')::bigint = l.message_id)
            and not exists (
                select from pgmq.a_mqpg_oplog a where (a.message ->> 'message_id')::bigint = l.message_id));
    update mqpg.commit_log l set xid = case
        when l.kind = 'h' then case
            when pg_visible_in_snapshot(l.xid, v_half) and l.batch_id <> all(v_unasked) then '2'::xid8 else v_own
        end
        else mqpg._renewed_xid(l.xid, v_own, v_new, v_old)
    end;
    update mqpg.held h set xid = mqpg._renewed_xid(h.xid, v_own, v_new, v_old);
    update mqpg.op_log o set xid = mqpg._renewed_xid(o.xid, v_own, v_new, v_old);
    update mqpg.delayed d set xid = mqpg._renewed_xid(d.xid, v_own, v_new, v_old);
    update mqpg.tick t set xid = '2', snapshot = '2:2:', snapshot_xmax = '2';
    update mqpg.half_tick h set xid = '2', snapshot = '2:2:', snapshot_xmax = '2', floor_id = 0, batch_seq = 0;
    update mqpg.segment s set opened_xid = '2' where s.opened_xid is not null;
    update mqpg.segment s set leaving_xid = '0' where s.leaving_xid is not null;
end
$$;
