-- Gives an offset to a record batch or a decision that alone is new, as in most passes of a broker
-- whose clients send one message at a time: to set up the plans of the other two takes far longer. It
-- writes the row that they would write. If there are several, `messages` is null and nothing is
-- written.
-- Locks: only the new row, because append() runs one at a time.
-- Cost: a few index lookups and one row.
create function mqpg._write_offset_of_one(
    last_tick mqpg.tick, upto pg_snapshot, decisions boolean, out messages bigint, out topic_ids int []
)
language plpgsql as $$
declare
    -- What is new: see _write_offsets().
    v_newest bigint := pg_sequence_last_value('mqpg.batch_id');
    v_from xid8 := _write_offset_of_one.last_tick.snapshot_xmax;
    v_before xid8 := pg_snapshot_xmax(_write_offset_of_one.upto);
    v_floor bigint := _write_offset_of_one.last_tick.floor_id;
    v_late xid8 [] := '{}';
    v_late_floor bigint := 9223372036854775807;
    v_recent bigint;
    v_found int := 0;
    v_row record;
    v_one record;
begin
    if _write_offset_of_one.decisions then
        v_floor := mqpg._decidable_from();
    end if;
    if pg_snapshot_xmin(_write_offset_of_one.last_tick.snapshot) < v_from then
        v_late := array(select pg_snapshot_xip(_write_offset_of_one.last_tick.snapshot));
        v_late_floor := v_floor;
    end if;
    if _write_offset_of_one.decisions then
        for v_row in
            select o.topic_id, o.queue_id, o.message_id as id, 1 as n, o.deliver_id
            from mqpg.op_log o
            where o.message_id >= v_floor and o.message_id <= v_newest * 1024 + 1023
                and o.op = 'c' and o.visible_at is null and o.xid >= v_from and o.xid < v_before
                and pg_visible_in_snapshot(o.xid, _write_offset_of_one.upto)
            union all
            select o.topic_id, o.queue_id, o.message_id, 1, o.deliver_id
            from mqpg.op_log o
            where o.message_id >= v_late_floor and o.message_id <= v_newest * 1024 + 1023
                and o.op = 'c' and o.visible_at is null and o.xid = any(v_late)
                and pg_visible_in_snapshot(o.xid, _write_offset_of_one.upto)
            limit 2
        loop
            v_found := v_found + 1;
            v_one := v_row;
        end loop;
    else
        for v_row in
            select l.topic_id, l.queue_id, l.batch_id * 1024 as id, l.n::int as n, null::bigint as deliver_id
            from mqpg.commit_log l
            where l.kind = 'n' and l.batch_id > v_floor and l.batch_id <= v_newest
                and l.xid >= v_from and l.xid < v_before
                and pg_visible_in_snapshot(l.xid, _write_offset_of_one.upto)
            union all
            select l.topic_id, l.queue_id, l.batch_id * 1024, l.n, null
            from mqpg.commit_log l
            where l.kind = 'n' and l.batch_id > v_late_floor and l.batch_id <= v_newest and l.xid = any(v_late)
                and pg_visible_in_snapshot(l.xid, _write_offset_of_one.upto)
            limit 2
        loop
            v_found := v_found + 1;
            v_one := v_row;
        end loop;
    end if;
    if v_found <> 1 then
        return;
    end if;
    v_recent := mqpg._recent_tick();
    insert into mqpg.consume_queue (
        base_offset, tick_id, topic_id, subscription_id, n, queue_id, first_ids, starts, deliver_ids)
    values (
        mqpg._tail(v_one.topic_id, v_one.queue_id, 0, v_recent), _write_offset_of_one.last_tick.tick_id + 1,
        v_one.topic_id, 0, v_one.n, v_one.queue_id, array[v_one.id], array[0],
        case when v_one.deliver_id is not null then array[v_one.deliver_id] end);
    _write_offset_of_one.messages := v_one.n;
    _write_offset_of_one.topic_ids := array[v_one.topic_id];
end
$$;
