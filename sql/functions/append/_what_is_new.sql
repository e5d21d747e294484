-- What append() may have to append: sends, decisions, or messages that are due. It looks at each
-- source of messages and stops at the first row. Sends alone are appended by _write_offsets_of_sends(),
-- a message alone by _write_offset_of_one(), and _write_offsets() leaves out the sources without news.
-- It may answer true when no row is visible in S1 yet, but never false when one is.
-- Locks: none. Cost: a few index lookups.
create function mqpg._what_is_new(
    last_tick mqpg.tick, upto pg_snapshot, due_until timestamptz, out sends boolean, out decisions boolean,
    out due boolean
)
language plpgsql as $$
declare
    -- What is new: see _new_sends().
    v_floor bigint := _what_is_new.last_tick.floor_id;
    -- No row that is visible in the snapshot has a greater batch id, so no later partition is opened.
    v_newest bigint := pg_sequence_last_value('mqpg.batch_id');
    v_from xid8 := _what_is_new.last_tick.snapshot_xmax;
    v_before xid8 := pg_snapshot_xmax(_what_is_new.upto);
    v_due_from timestamptz := _what_is_new.last_tick.due_until;
    v_decidable bigint := mqpg._decidable_from();
    v_late xid8 [];
begin
    select exists (
            select from mqpg.commit_log l
            where l.kind = 'n' and l.batch_id > v_floor and l.batch_id <= v_newest and l.xid >= v_from and l.xid < v_before),
        exists (
            select from mqpg.op_log o
            where o.message_id >= v_decidable and o.message_id <= v_newest * 1024 + 1023
                and o.op = 'c' and o.visible_at is null and o.xid >= v_from and o.xid < v_before),
        exists (
            select from mqpg.delayed d
            where d.visible_at > v_due_from and d.visible_at <= _what_is_new.due_until)
            -- Whatever their time, so that a tick is stored that has seen them. Otherwise each append()
            -- would read them.
            or exists (select from mqpg.delayed d where d.xid >= v_from and d.xid < v_before)
    into _what_is_new.sends, _what_is_new.decisions, _what_is_new.due;
    if pg_snapshot_xmin(_what_is_new.last_tick.snapshot) < v_from then
        v_late := array(select pg_snapshot_xip(_what_is_new.last_tick.snapshot));
        select _what_is_new.sends or exists (
                select from mqpg.commit_log l
                where l.kind = 'n' and l.batch_id > v_floor and l.batch_id <= v_newest and l.xid = any(v_late)),
            _what_is_new.decisions or exists (
                select from mqpg.op_log o
                where o.message_id >= v_decidable and o.message_id <= v_newest * 1024 + 1023
                    and o.op = 'c' and o.visible_at is null and o.xid = any(v_late)),
            _what_is_new.due or exists (select from mqpg.delayed d where d.xid = any(v_late))
        into _what_is_new.sends, _what_is_new.decisions, _what_is_new.due;
    end if;
end
$$;
