-- Begins the next tick segment when the current one is older than the setting `segment_age`, and
-- moves half ticks there too. It writes the newest row again, unchanged, under the first id of the
-- next segment. With the same snapshot, that row only tells the appender where ids continue.
-- Locks: those of the appender and of the half ticks, tried only, held until commit.
-- Cost: two lookups, two inserts.
create function mqpg._roll_ticks()
returns table (action text, family text, segment_no bigint, detail text)
language plpgsql as $$
declare
    v_current mqpg.segment;
    v_next mqpg.segment;
    v_tick_id bigint;
    v_half_tick_id bigint;
begin
    select max(t.tick_id) into v_tick_id from mqpg.tick t;
    select max(h.half_tick_id) into v_half_tick_id from mqpg.half_tick h;
    select s.* into v_current from mqpg.segment s
    where s.family = 'tick' and s.lower_bound::bigint <= v_tick_id and s.upper_bound::bigint > v_tick_id;
    if not found then
        return;
    end if;
    select s.* into v_next from mqpg.segment s
    where s.family = 'tick' and s.lower_bound::bigint >= v_current.upper_bound::bigint
    order by s.segment_no limit 1;
    if found and v_current.opened_at <= clock_timestamp() - mqpg._segment_age('tick')
        and v_tick_id > v_current.lower_bound::bigint
        and mqpg._try_lock_append() then
        insert into mqpg.tick (
            tick_id, xid, snapshot, snapshot_xmax, batch_seq, floor_id, due_until, messages, topic_ids, at)
        select v_next.lower_bound::bigint, t.xid, t.snapshot, t.snapshot_xmax, t.batch_seq, t.floor_id, t.due_until,
            0, '{}', clock_timestamp()
        from mqpg.tick t order by t.tick_id desc limit 1;
        perform setval('mqpg.tick_mark', v_next.lower_bound::bigint);
        return query select 'rolled', 'tick', v_current.segment_no, format(
            'older than %s: ticks continue in segment %s', mqpg._segment_age('tick'), v_next.segment_no);
        v_current := v_next;
    end if;
    update mqpg.segment s set opened_at = clock_timestamp()
    where s.family = 'tick' and s.segment_no = v_current.segment_no and s.opened_at is null;
    if v_half_tick_id < v_current.lower_bound::bigint and pg_try_advisory_xact_lock(1836150834, 1) then
        insert into mqpg.half_tick (half_tick_id, xid, snapshot, snapshot_xmax, batch_seq, floor_id, entries, at)
        select v_current.lower_bound::bigint, h.xid, h.snapshot, h.snapshot_xmax, h.batch_seq, h.floor_id, 0,
            clock_timestamp()
        from mqpg.half_tick h order by h.half_tick_id desc limit 1;
        return query select 'carried', 'tick', v_current.segment_no, 'half ticks continue here';
    end if;
end
$$;
