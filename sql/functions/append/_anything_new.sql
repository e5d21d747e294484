-- Whether append() may have something to do. It looks at each source of messages and stops at the
-- first row. An idle broker mostly has none, and the whole INSERT would cost ten times as much. It
-- may answer true when no row is visible in S1 yet, but never false when one is.
-- Locks: none.
-- Cost: a few index lookups.
create function mqpg._anything_new(last_tick mqpg.tick, upto pg_snapshot, due_until timestamptz) returns boolean
language plpgsql volatile as $$
declare
    v_floor bigint := _anything_new.last_tick.floor_id;
    v_from xid8 := _anything_new.last_tick.snapshot_xmax;
    v_before xid8 := pg_snapshot_xmax(_anything_new.upto);
    v_late xid8 [] := array(select pg_snapshot_xip(_anything_new.last_tick.snapshot));
    v_due_from timestamptz := _anything_new.last_tick.due_until;
    v_decidable bigint := mqpg._decidable_from();
begin
    if exists (
        select from mqpg.commit_log l
        where l.kind = 'n' and l.batch_id > v_floor and l.xid >= v_from and l.xid < v_before) then
        return true;
    end if;
    if exists (
        select from mqpg.op_log o
        where o.message_id >= v_decidable and o.op = 'c' and o.visible_at is null
            and o.xid >= v_from and o.xid < v_before) then
        return true;
    end if;
    if exists (
        select from mqpg.delayed d where d.visible_at > v_due_from and d.visible_at <= _anything_new.due_until)
        -- Whatever their time, so that a tick is stored that has seen them. Otherwise each append()
        -- would read them.
        or exists (select from mqpg.delayed d where d.xid >= v_from and d.xid < v_before) then
        return true;
    end if;
    return v_late <> '{}' and (
        exists (select from mqpg.commit_log l where l.kind = 'n' and l.batch_id > v_floor and l.xid = any(v_late))
        or exists (
            select from mqpg.op_log o
            where o.message_id >= v_decidable and o.op = 'c' and o.visible_at is null and o.xid = any(v_late))
        or exists (select from mqpg.delayed d where d.xid = any(v_late)));
end
$$;
comment on function mqpg._anything_new(mqpg.tick, pg_snapshot, timestamptz) is
    'Internal: whether append() may have something to do';
