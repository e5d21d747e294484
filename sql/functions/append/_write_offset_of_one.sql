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
    v_newest bigint := pg_sequence_last_value('mqpg.batch_id');
    v_from xid8 := _write_offset_of_one.last_tick.snapshot_xmax;
    v_late xid8 [] := '{}';
    v_floor bigint;
    v_recent bigint;
    v_found int := 0;
    v_row record;
    v_one record;
    v_id bigint;
    v_n int := 1;
    v_body bigint;
begin
    if pg_snapshot_xmin(_write_offset_of_one.last_tick.snapshot) < v_from then
        v_late := array(select pg_snapshot_xip(_write_offset_of_one.last_tick.snapshot));
    end if;
    if _write_offset_of_one.decisions then
        v_floor := mqpg._decidable_from();
        for v_row in
            select o.* from mqpg._new_commits(v_floor, v_newest, v_from, v_late, _write_offset_of_one.upto) o limit 2
        loop
            v_found := v_found + 1;
            v_one := v_row;
            v_id := v_row.message_id;
            v_body := v_row.deliver_id;
        end loop;
    else
        v_floor := _write_offset_of_one.last_tick.floor_id;
        for v_row in
            select l.* from mqpg._new_sends(v_floor, v_newest, v_from, v_late, _write_offset_of_one.upto) l limit 2
        loop
            v_found := v_found + 1;
            v_one := v_row;
            v_id := v_row.batch_id * 1024;
            v_n := v_row.n;
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
        v_one.topic_id, 0, v_n, v_one.queue_id, array[v_id], array[0],
        case when v_body is not null then array[v_body] end);
    _write_offset_of_one.messages := v_n;
    _write_offset_of_one.topic_ids := array[v_one.topic_id];
end
$$;
