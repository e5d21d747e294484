-- Cuts a backlog: it returns the snapshot S1 as it was when xid x was the next one, with xmax(S0)
-- <= x <= xmax(S1), where x is chosen so that about max_messages are new. An x below xmax(S0) would
-- append messages again.
-- Locks: none. Cost: an index scan of at most 2 * max_messages entries.
create function mqpg._snapshot_of_backlog_part(last_tick mqpg.tick, s1 pg_snapshot, max_messages int)
    returns pg_snapshot
language plpgsql as $$
declare
    v_s0_xmax xid8 := _snapshot_of_backlog_part.last_tick.snapshot_xmax;
    v_last xid8;
    v_x bigint;
    v_decidable bigint := mqpg._decidable_from();
begin
    select least(
        (select c.xid from (
            select l.xid, sum(l.n) over (order by l.xid rows unbounded preceding) as total from mqpg.commit_log l
            where l.kind = 'n' and l.batch_id > _snapshot_of_backlog_part.last_tick.floor_id
                and l.xid >= v_s0_xmax and l.xid < pg_snapshot_xmax(_snapshot_of_backlog_part.s1)
            order by l.xid limit _snapshot_of_backlog_part.max_messages) as c
        where c.total >= _snapshot_of_backlog_part.max_messages order by c.xid limit 1),
        (select o.xid from mqpg.op_log o
        where o.message_id >= v_decidable and o.op = 'c' and o.visible_at is null
            and o.xid >= v_s0_xmax and o.xid < pg_snapshot_xmax(_snapshot_of_backlog_part.s1)
        order by o.xid offset _snapshot_of_backlog_part.max_messages - 1 limit 1)) into v_last;
    if v_last is null then
        return _snapshot_of_backlog_part.s1;
    end if;
    v_x := v_last::text::bigint + 1;
    return (
        select format('%s:%s:%s', least(pg_snapshot_xmin(_snapshot_of_backlog_part.s1)::text::bigint, v_x), v_x,
            string_agg(x.xid::text, ',' order by x.xid))::pg_snapshot
        from pg_snapshot_xip(_snapshot_of_backlog_part.s1) as x(xid)
        where x.xid::text::bigint < v_x);
end
$$;
