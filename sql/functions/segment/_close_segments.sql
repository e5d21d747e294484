-- Closes the segments into which no transaction can write any more.
-- log: all transactions that could write one of its ids are over (they are older than opened_xid of
-- the next segment), and their messages have offsets. tick: the newest tick and half tick are in a
-- later segment. delayed, dedup: their time is over, and one more slot. Cursor slots are closed
-- elsewhere, when their state is copied.
-- Locks: the caller holds the keeper's.
-- Cost: a few lookups; one index range for a log segment.
create function mqpg._close_segments()
returns table (action text, family text, segment_no bigint, detail text)
language plpgsql as $$
declare
    v_segment mqpg.segment;
    v_tick mqpg.tick;
    v_half_tick_id bigint;
    v_slot bigint := mqpg._dedup_slot();
begin
    select t.* into v_tick from mqpg.tick t order by t.tick_id desc limit 1;
    select max(h.half_tick_id) into v_half_tick_id from mqpg.half_tick h;
    for v_segment in
        select s.* from mqpg.segment s
        where s.family = 'log' and s.closed_at is null and (
            select n.opened_xid from mqpg.segment n
            where n.family = 'log' and n.segment_no > s.segment_no order by n.segment_no limit 1
        ) < pg_snapshot_xmin(pg_current_snapshot())
        order by s.segment_no
    loop
        if coalesce(v_tick.floor_id, 0) < v_segment.upper_bound::bigint
            and exists (
                select from mqpg.commit_log l
                where l.kind = 'n' and l.batch_id >= v_segment.lower_bound::bigint
                    and l.batch_id < v_segment.upper_bound::bigint
                    and (v_tick.snapshot is null or l.xid >= pg_snapshot_xmin(v_tick.snapshot))
                    and (v_tick.snapshot is null or not pg_visible_in_snapshot(l.xid, v_tick.snapshot))) then
            continue;
        end if;
        update mqpg.segment s set closed_at = clock_timestamp()
        where s.family = 'log' and s.segment_no = v_segment.segment_no;
        return query select 'closed', 'log', v_segment.segment_no, 'all its messages have offsets';
    end loop;
    return query
    update mqpg.segment s set closed_at = clock_timestamp()
    where s.closed_at is null and case s.family
        when 'tick' then
            v_tick.tick_id >= s.upper_bound::bigint
            and coalesce(v_half_tick_id >= s.upper_bound::bigint, true)
        when 'delayed' then
            s.upper_bound::timestamptz < clock_timestamp() + mqpg._ahead() - mqpg._setting('delayed_slot')::interval
        when 'dedup' then
            -- before the current slot, or out of reach because dedup_window was changed
            s.upper_bound::bigint < v_slot
            or s.lower_bound::bigint > v_slot
                + mqpg._dedup_segment_slots() * (mqpg._setting('segments_ahead')::int + 3)
        else false
    end
    returning 'closed', s.family, s.segment_no, 'no transaction writes into it any more';
end
$$;
