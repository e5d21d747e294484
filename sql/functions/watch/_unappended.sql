-- What is committed and has no offset yet: record batches and commits of half messages. Delayed
-- messages and retries that are due are not among them. 1001 in `waiting` means more than 1000, and
-- oldest_at is when the oldest of the first 1001 was sent or decided.
-- Locks: none. Cost: the newest tick, and up to 1,001 entries of each of two indexes.
create function mqpg._unappended(out waiting bigint, out oldest_at timestamptz)
language plpgsql stable as $$
declare
    v_recent bigint := mqpg._recent_tick();
    v_from xid8;
    v_late xid8 [];
    v_floor bigint;
begin
    select t.snapshot_xmax, array(select pg_snapshot_xip(t.snapshot)), t.floor_id into v_from, v_late, v_floor
    from mqpg.tick t where t.tick_id >= v_recent
    order by t.tick_id desc limit 1;
    v_from := coalesce(v_from, '0'::xid8);
    select least(count(*), 1001), min(w.at) into _unappended.waiting, _unappended.oldest_at
    from (
        (
            select l.born_at as at from mqpg.commit_log l
            where l.kind = 'n' and l.xid >= v_from and l.batch_id > coalesce(v_floor, 0)
            order by l.xid limit 1001
        )
        union all
        select l.born_at from mqpg.commit_log l
        where l.kind = 'n' and l.xid = any(v_late) and l.batch_id > coalesce(v_floor, 0)
        union all
        (
            select o.at from mqpg.op_log o
            where o.op = 'c' and o.visible_at is null and o.xid >= v_from
            order by o.xid limit 1001
        )
        union all
        select o.at from mqpg.op_log o
        where o.op = 'c' and o.visible_at is null and o.xid = any(v_late)
    ) as w;
end
$$;
