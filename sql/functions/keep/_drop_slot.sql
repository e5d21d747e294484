-- Drops one closed slot of cursor, delayed or dedup. A delayed slot gets a last look under its lock:
-- no delayed message or retry may be waiting to be appended. A cursor slot was closed when no state
-- was only there (_roll_cursors), and a closed one gets no new state. Dedup ids only need their time
-- to be over.
-- Locks: ACCESS EXCLUSIVE on the partition and the parent, waited for at most 100 ms.
-- Cost: reads a delayed slot once.
create function mqpg._drop_slot(kind text, no bigint)
returns table (action text, family text, segment_no bigint, detail text)
language plpgsql as $$
declare
    v_segment mqpg.segment;
    v_tick mqpg.tick;
    v_pins text;
begin
    select s.* into v_segment from mqpg.segment s
    where s.family = _drop_slot.kind and s.segment_no = _drop_slot.no;
    select t.* into v_tick from mqpg.tick t order by t.tick_id desc limit 1;
    begin
        if not mqpg._lock_partition(v_segment.family, v_segment.segment_no) then
            raise lock_not_available;
        end if;
        if v_segment.family = 'delayed' then
            select format('%s rows are not appended yet', count(*)) into v_pins
            from mqpg.delayed d
            where d.written_at >= v_segment.lower_bound::timestamptz
                and d.written_at < v_segment.upper_bound::timestamptz
                and (v_tick.tick_id is null or d.visible_at > v_tick.due_until
                    or not pg_visible_in_snapshot(d.xid, v_tick.snapshot))
            having count(*) > 0;
        end if;
        if v_pins is null then
            if not mqpg._drop_partition(v_segment.family, v_segment.segment_no) then
                raise lock_not_available;
            end if;
            update mqpg.segment s set dropped_at = clock_timestamp()
            where s.family = v_segment.family and s.segment_no = v_segment.segment_no;
        end if;
    exception when lock_not_available then
        return query select 'blocked', v_segment.family, v_segment.segment_no,
            v_segment.family || ' is in use; the next keep() tries again';
        return;
    end;
    return query select case when v_pins is null then 'dropped' else 'pinned' end, v_segment.family,
        v_segment.segment_no, coalesce(v_pins, v_segment.family || '_' || v_segment.segment_no);
end
$$;
comment on function mqpg._drop_slot(text, bigint) is
    'Internal: drop a closed slot of cursor, delayed or dedup';
