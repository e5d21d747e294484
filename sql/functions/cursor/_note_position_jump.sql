-- Notes in the table position_jump a range of offsets that a subscription skips, or with `back` may
-- get again. Ranges that expire one after the other share a row, because receive() makes many. They
-- share none with ranges from before the cursor's slot, whose versions may be dropped: the versions
-- that are left would not explain the row. For the same reason the caller notes the range before it
-- writes the version, which may begin a new slot.
-- Locks: the row. Cost: one insert or update; three index lookups if messages expired.
create function mqpg._note_position_jump(
    subscription mqpg.subscription, queue_id int, from_offset bigint, to_offset bigint, why text,
    back boolean default false
) returns void
language plpgsql as $$
declare
    v_cursor mqpg.cursor;
    v_since timestamptz;
begin
    if _note_position_jump.from_offset >= _note_position_jump.to_offset then
        return;
    end if;
    if _note_position_jump.why = 'expired' then
        v_cursor := mqpg._cursor((_note_position_jump.subscription).subscription_id, _note_position_jump.queue_id);
        select c.at into v_since from mqpg.cursor c
        where c.subscription_id = v_cursor.subscription_id and c.queue_id = v_cursor.queue_id
            and c.slot = v_cursor.slot
        order by c.version limit 1;
        update mqpg.position_jump j set to_offset = _note_position_jump.to_offset, at = clock_timestamp()
        where j.subscription_id = (_note_position_jump.subscription).subscription_id
            and j.queue_id = _note_position_jump.queue_id
            and j.to_offset = _note_position_jump.from_offset and j.why = 'expired' and not j.back
            and j.at >= v_since;
        if found then
            return;
        end if;
    end if;
    insert into mqpg.position_jump (
        subscription_id, topic_id, consumer_group, member, topic, queue_id, from_offset, to_offset, why, back)
    select (_note_position_jump.subscription).subscription_id, t.topic_id,
        (_note_position_jump.subscription).consumer_group,
        (_note_position_jump.subscription).member, t.name, _note_position_jump.queue_id,
            _note_position_jump.from_offset, _note_position_jump.to_offset,
        _note_position_jump.why, _note_position_jump.back
    from mqpg.topic t where t.topic_id = (_note_position_jump.subscription).topic_id;
end
$$;
