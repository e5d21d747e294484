-- Moves one queue of a subscription to an offset, forward or back: claims end there, their receipts are stale, and
-- the table jump says what was left out. Returns how many messages that is: what was not handed out yet, and what
-- was and is not settled.
-- Locks: none (the caller holds the queue's). Cost: one cursor version, one row a stretch left out.
create function mqpg._move_cursor(subscription mqpg.subscription, queue_id int, to_offset bigint, why text)
returns bigint
language plpgsql as $$
declare
    v_id int := (_move_cursor.subscription).subscription_id;
    v_cursor mqpg.cursor := mqpg._cursor(v_id, _move_cursor.queue_id);
    v_part record;
    v_left_out bigint := 0;
begin
    if v_cursor.version is null
        or (v_cursor.claims = '{}' and v_cursor.claimed = _move_cursor.to_offset) then
        return 0;
    end if;
    perform mqpg._write_cursor(v_cursor, 'q', null, _move_cursor.to_offset, v_cursor.owner, '{}');
    for v_part in
        select r.from_offset, least(r.to_offset, _move_cursor.to_offset) as to_offset, r.settled
        from (
            select (c).from_offset, (c).to_offset, coalesce(cardinality((c).settled), 0) as settled
            from unnest(v_cursor.claims) c
            union all
            select v_cursor.claimed, _move_cursor.to_offset, 0
        ) as r
        where r.from_offset < _move_cursor.to_offset
    loop
        v_left_out := v_left_out + greatest(v_part.to_offset - v_part.from_offset - v_part.settled, 0);
        perform mqpg._note_jump(
            _move_cursor.subscription, _move_cursor.queue_id, v_part.from_offset, v_part.to_offset,
            _move_cursor.why);
    end loop;
    if _move_cursor.to_offset < v_cursor.claimed then
        delete from mqpg.jump j
        where j.subscription_id = v_id and j.queue_id = _move_cursor.queue_id and not j.back
            and j.from_offset >= _move_cursor.to_offset;
        update mqpg.jump j set to_offset = _move_cursor.to_offset
        where j.subscription_id = v_id and j.queue_id = _move_cursor.queue_id and not j.back
            and j.to_offset > _move_cursor.to_offset;
        perform mqpg._note_jump(
            _move_cursor.subscription, _move_cursor.queue_id, _move_cursor.to_offset, v_cursor.claimed,
            _move_cursor.why, true);
    end if;
    return v_left_out;
end
$$;
comment on function mqpg._move_cursor(mqpg.subscription, int, bigint, text) is 'Internal: move a cursor to an offset';
