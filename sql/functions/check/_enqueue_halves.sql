-- Puts half messages that are newly visible and still undecided into the check queue, where they
-- become visible when they are overdue. That is PGMQ's queue mqpg_oplog; the table op_log, which has the
-- decisions, is something else. It uses the appender's rule, with ticks of its own: it
-- takes the half messages whose xid is visible in the given snapshot and not in that of the newest
-- half tick. As a consequence, none is forgotten and none gets two entries. It stores a half tick
-- when there were new half messages. Without any it stores at most two for each segment of the log:
-- they move the id from which on it looks, so that it does not look into ever more segments.
-- `batch_seq` is the value of the batch id sequence, read before the snapshot was taken. The
-- caller's transaction had no xid when it took the snapshot. check_at is rounded up to a tenth of a
-- second, because PGMQ accepts one delay per batch. A half message from a time when the clock was ahead
-- is overdue as long after now as it was meant to be after its prepare().
-- Locks: 1836150834, 1, tried only, because its holder does the same work.
-- Cost: an index scan of the new half messages and a lookup for each; one row, and one insert for
-- each undecided one.
create function mqpg._enqueue_halves(snapshot pg_snapshot, batch_seq bigint) returns bigint
language plpgsql set standard_conforming_strings = on as $$
declare
    v_recent bigint := mqpg._recent_tick();
    v_last mqpg.half_tick;
    v_from xid8;
    v_before xid8 := pg_snapshot_xmax(_enqueue_halves.snapshot);
    v_late xid8 [];
    v_floor bigint;
    v_bound bigint;     -- lower bound of the segment before the one in use
    v_least bigint;
    v_most bigint;
    v_due record;
    v_entries bigint := 0;
begin
    if not pg_try_advisory_xact_lock(1836150834, 1) then
        return 0;
    end if;
    if exists (
        select from mqpg.producer_group g
        where g.overfull_at not between clock_timestamp() - interval '1 second' and clock_timestamp()) then
        perform mqpg._count_undecided();
    end if;
    select h.* into v_last from mqpg.half_tick h
    where h.half_tick_id >= v_recent order by h.half_tick_id desc limit 1;
    if not found then
        select h.* into v_last from mqpg.half_tick h order by h.half_tick_id desc limit 1;
    end if;
    v_from := coalesce(v_last.snapshot_xmax, '0');
    v_late := array(select pg_snapshot_xip(v_last.snapshot));
    v_floor := coalesce(v_last.floor_id, 0);
    select min(l.batch_id), max(l.batch_id) into v_least, v_most
    from (
        select h.batch_id from mqpg.commit_log h
        where h.kind = 'h' and h.batch_id > v_floor and h.xid >= v_from and h.xid < v_before
            and pg_visible_in_snapshot(h.xid, _enqueue_halves.snapshot)
        union all
        select h.batch_id from mqpg.commit_log h
        where h.kind = 'h' and h.batch_id > v_floor and h.xid = any(v_late)
            and pg_visible_in_snapshot(h.xid, _enqueue_halves.snapshot)
    ) as l;
    if v_least is null then
        v_bound := (
            select s.lower_bound::bigint from mqpg.segment s
            where s.family = 'log' and s.opened_at is not null
            order by s.segment_no desc offset 1 limit 1);
        -- The first of the two notes an id behind the bound, the second makes it the floor.
        if (v_floor < v_bound and _enqueue_halves.batch_seq >= v_bound
            and (coalesce(v_last.batch_seq, 0) < v_bound
                or v_last.xid <= pg_snapshot_xmin(_enqueue_halves.snapshot))) is not true then
            return 0;
        end if;
    end if;
    for v_due in
        select to_timestamp(ceil(extract(epoch from least(
            l.check_at, clock_timestamp() + (l.check_at - l.born_at))) * 10) / 10) as at, array_agg(
            jsonb_strip_nulls(jsonb_build_object(
                'handle', mqpg._handle(l.incarnation, l.batch_id * 1024 + i.i, l.nonce),
                'message_id', l.batch_id * 1024 + i.i,
                'producer_group', coalesce(g.name, ''),
                'ledger', mqpg._ledger_of(l.nonce)))
            order by l.batch_id, i.i) as entries
        from (
            select h.batch_id, h.n, h.nonce, h.incarnation, h.check_at, h.born_at, h.producer_group_id
            from mqpg.commit_log h
            where h.kind = 'h' and h.batch_id between v_least and v_most and h.xid >= v_from and h.xid < v_before
                and pg_visible_in_snapshot(h.xid, _enqueue_halves.snapshot)
            union all
            select h.batch_id, h.n, h.nonce, h.incarnation, h.check_at, h.born_at, h.producer_group_id
            from mqpg.commit_log h
            where h.kind = 'h' and h.batch_id between v_least and v_most and h.xid = any(v_late)
                and pg_visible_in_snapshot(h.xid, _enqueue_halves.snapshot)
        ) as l
        cross join lateral generate_series(0, l.n - 1) as i(i)
        left join mqpg.producer_group g on g.producer_group_id = l.producer_group_id
        where not exists (
            select from mqpg.op_log o
            where o.message_id = l.batch_id * 1024 + i.i and o.stage = 0
                and o.message_id between v_least * 1024 and v_most * 1024 + 1023)
        group by 1
    loop
        perform pgmq.send_batch('mqpg_oplog', v_due.entries, v_due.at);
        v_entries := v_entries + cardinality(v_due.entries);
    end loop;
    if v_entries > 0 then
        perform mqpg._count_undecided();
    end if;
    insert into mqpg.half_tick (half_tick_id, xid, snapshot, snapshot_xmax, batch_seq, floor_id, entries, at)
    values (
        greatest(coalesce(v_last.half_tick_id, 0) + 1, (select max(t.tick_id) from mqpg.tick t where t.tick_id >= v_recent)),
        pg_current_xact_id(), _enqueue_halves.snapshot, v_before, _enqueue_halves.batch_seq,
        greatest(v_floor, (
            select h.batch_seq from mqpg.half_tick h
            where h.half_tick_id >= v_recent and h.xid <= pg_snapshot_xmin(_enqueue_halves.snapshot)
            order by h.xid desc, h.half_tick_id desc limit 1)),
        v_entries, clock_timestamp());
    return v_entries;
end
$$;
