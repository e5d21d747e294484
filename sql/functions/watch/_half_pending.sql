-- Half messages that are neither decided nor parked. Each of them has an entry in the check queue
-- or is newer than the last time the queue was filled, so the whole log need not be searched.
-- Locks: none. Cost: a few index lookups for each entry of the check queue and for each half
-- message of about the last second; one look at the locks of the server and at the compensators.
create function mqpg._half_pending() returns table (
    handle text, producer_group text, topic text, prepared_at timestamptz, check_at timestamptz,
    checks int, reason text
)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
begin
    perform mqpg._require_privilege('operator', 'auditor', 'worker');
    return query
    with newest as materialized (
        select h.snapshot from mqpg.half_tick as h
        order by h.half_tick_id desc
        limit 1
    ),
    candidate as (
        select (q.message ->> 'message_id')::bigint as message_id, q.vt as check_at
        from pgmq.q_mqpg_oplog as q
        union all
        select l.batch_id * 1024 + i.i, l.check_at
        from mqpg.commit_log as l
        cross join lateral generate_series(0, l.n - 1) as i (i)
        where l.kind = 'h'
            and l.xid >= coalesce((select pg_snapshot_xmax(n.snapshot) from newest as n), '0'::xid8)
        union all
        select l.batch_id * 1024 + i.i, l.check_at
        from mqpg.commit_log as l
        cross join lateral generate_series(0, l.n - 1) as i (i)
        where l.kind = 'h' and l.xid = any(array(select pg_snapshot_xip(n.snapshot) from newest as n))
    ),
    half as materialized (
        select c.message_id, c.check_at, m.incarnation, m.nonce, m.topic_id, m.born_at, m.producer_group_id,
            mqpg._ledger_of(m.nonce) as ledger
        from candidate as c
        cross join lateral mqpg._half_by_id(c.message_id) as m
    ),
    problem as materialized (
        select d.producer_group_id, d.ledger, p.problem
        from (
            select distinct h.producer_group_id, h.ledger, g.name, g.checker_target
            from half as h
            inner join mqpg.producer_group as g on h.producer_group_id = g.producer_group_id
            where g.checker = 'url' and h.check_at <= clock_timestamp()
        ) as d
        cross join lateral mqpg._ledger_problem(d.name, d.checker_target, d.ledger) as p
    )
    select mqpg._handle(h.incarnation, h.message_id, h.nonce), g.name, t.name, h.born_at, h.check_at, k.checks,
        case when h.check_at <= clock_timestamp() then coalesce(p.problem, r.reason) else r.reason end
    from half as h
    inner join mqpg.topic as t on h.topic_id = t.topic_id
    left join mqpg.producer_group as g on h.producer_group_id = g.producer_group_id
    left join problem as p on h.producer_group_id = p.producer_group_id and h.ledger is not distinct from p.ledger
    cross join lateral mqpg._check_count(h.message_id) as k
    cross join lateral mqpg._last_reason(h.message_id) as r (reason)
    where not mqpg._is_decided_half(h.message_id);
end
$$;
