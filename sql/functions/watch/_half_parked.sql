-- Half messages for which no checker had an answer and whose producer group parks such messages.
-- Locks: none. Cost: a few index lookups for each archived entry of the check queue.
create function mqpg._half_parked() returns table (
    handle text, producer_group text, topic text, prepared_at timestamptz, check_at timestamptz,
    checks int, reason text, parked_at timestamptz
)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
begin
    perform mqpg._require_privilege('operator', 'auditor', 'worker');
    return query
    select a.message ->> 'handle', a.message ->> 'producer_group', t.name, m.born_at, m.check_at, k.checks, r.reason,
        a.archived_at
    from pgmq.a_mqpg_oplog as a
    cross join lateral (values ((a.message ->> 'message_id')::bigint)) as i (message_id)
    cross join lateral mqpg._half_by_id(i.message_id) as m
    inner join mqpg.topic as t on m.topic_id = t.topic_id
    cross join lateral mqpg._check_count(i.message_id) as k
    cross join lateral mqpg._last_reason(i.message_id) as r (reason)
    where not mqpg._is_decided_half(i.message_id);
end
$$;
