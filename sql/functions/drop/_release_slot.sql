-- Releases one closed slot of cursor, delayed or dedup, so that it is dropped: no cursor state may
-- be only there, and no delayed message or retry may be waiting to be appended. Dedup ids only need
-- their time to be over. The partition is sealed before the last look, so that no late transaction
-- can write into it afterwards.
-- Locks: SHARE ROW EXCLUSIVE on the partition, waited for at most 100 ms; it stops no reader.
-- Cost: reads a delayed slot twice; a cursor slot costs _cursors_to_copy() twice.
create function mqpg._release_slot(segment mqpg.segment)
returns table (action text, family text, segment_no bigint, detail text)
language plpgsql as $$
declare
    v_segment mqpg.segment := _release_slot.segment;
    v_tick mqpg.tick;
    v_pins text;
begin
    for v_look in 1..2 loop
        select t.* into v_tick from mqpg.tick t order by t.tick_id desc limit 1;
        if v_segment.family = 'delayed' then
            select format('%s rows are not appended yet', count(*)) into v_pins
            from mqpg.delayed d
            where d.written_at >= v_segment.lower_bound::timestamptz
                and d.written_at < v_segment.upper_bound::timestamptz
                and (v_tick.tick_id is null or d.visible_at > v_tick.due_until
                    or not pg_visible_in_snapshot(d.xid, v_tick.snapshot))
            having count(*) > 0;
        elsif v_segment.family = 'cursor' then
            select format('%s queues have not moved to a newer slot yet', count(*)) into v_pins
            from mqpg._cursors_to_copy(v_segment.upper_bound::int, 0, 1)
            having count(*) > 0;
        end if;
        if v_pins is not null then
            if v_look = 2 then
                raise lock_not_available;   -- undoes the seal
            end if;
            return query select 'pinned', v_segment.family, v_segment.segment_no, v_pins;
            return;
        end if;
        exit when v_segment.family = 'dedup';
        if v_look = 1 and not mqpg._seal_partition(v_segment.family, v_segment.segment_no) then
            raise lock_not_available;
        end if;
    end loop;
    perform mqpg._release_table(v_segment.family, v_segment.segment_no, v_segment.family);
    return query select 'released', v_segment.family, v_segment.segment_no,
        mqpg._partition_name(v_segment.family, v_segment.segment_no);
exception when lock_not_available then
    return query select 'blocked', v_segment.family, v_segment.segment_no,
        'a transaction that wrote into it is still open; the next keep() tries again';
end
$$;
