-- Copies messages that must stay readable out of commit_log, or out of one of its partitions (the
-- relation's name), one row each. Those that were already copied are left as they are.
-- Locks: the new rows.
-- Cost: reads and unnests each record batch concerned once.
create function mqpg._copy_survivors(message_ids bigint [], relation text) returns bigint
language plpgsql as $$
declare
    v_rows bigint;
begin
    execute format($query$
        insert into mqpg.held (
            message_id, xid, born_at, topic_id, producer_group_id, incarnation, queue_id, kind, nonce, check_at, delay,
            key, tag, headers, payload, relay)
        select (l.batch_id << 10) + u.place - 1, l.xid, l.born_at, l.topic_id, l.producer_group_id, l.incarnation,
            l.queue_id, l.kind,
            l.nonce, l.check_at, l.delay, u.key, u.tag, u.headers, u.payload, l.relay
        from (
            select w.message_id >> 10 as batch_id, array_agg(w.message_id) as ids
            from unnest($1) as w(message_id) group by 1
        ) as b
        join %s l on l.batch_id = b.batch_id
        cross join lateral unnest(l.payloads, l.keys, l.tags, l.headers)
            with ordinality as u(payload, key, tag, headers, place)
        where (l.batch_id << 10) + u.place - 1 = any(b.ids)
            and l.batch_id >= (select min(w.message_id) >> 10 from unnest($1) as w(message_id))
            and l.batch_id <= (select max(w.message_id) >> 10 from unnest($1) as w(message_id))
        on conflict (message_id) do nothing
    $query$, _copy_survivors.relation) using _copy_survivors.message_ids;
    get diagnostics v_rows = row_count;
    return v_rows;
end
$$;
