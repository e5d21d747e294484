-- Writes messages of which some have a dedup id. Each is a record batch of its own. A message whose
-- dedup id was used within the window is not stored, and its id is the first message's. The ids
-- come in the order of the arguments.
-- Locks: see _register_dedup_ids(). Cost: one row for each message.
create function mqpg._store_deduplicated(
    topic_id int, queues int, checksums boolean, payloads text [], keys text [], tags text [], headers jsonb [],
    dedup_ids text [], visible_at timestamptz
) returns bigint []
language plpgsql as $$
declare
    v_xid xid8 := pg_current_xact_id();    -- before any batch id is drawn
    v_now timestamptz := clock_timestamp();
    v_ids bigint [] := '{}';
    v_first bigint [];
begin
    for v_i in 1..cardinality(_store_deduplicated.payloads) loop
        v_ids[v_i] := nextval('mqpg.batch_id') * 1024;
    end loop;
    v_first := mqpg._register_dedup_ids(_store_deduplicated.topic_id, _store_deduplicated.dedup_ids, v_ids);
    with message as (
        select u.m / 1024 as batch_id, u.p, u.k, u.t, u.h, case
            when u.k is null then mqpg._queue_of(u.m / 1024, _store_deduplicated.queues)
            else mqpg._queue_of(u.k, _store_deduplicated.queues)
        end as queue_id
        from unnest(v_ids, v_first, _store_deduplicated.payloads, _store_deduplicated.keys, _store_deduplicated.tags,
            _store_deduplicated.headers)
            as u(m, f, p, k, t, h)
        where u.f is null
    ),
    stored as (
        insert into mqpg.commit_log (
            batch_id, xid, born_at, topic_id, queue_id, n, kind, keys, tags, headers, payloads, checksum)
        select m.batch_id, v_xid, v_now, _store_deduplicated.topic_id, m.queue_id, 1,
            case when _store_deduplicated.visible_at is null then 'n' else 'd' end,
            case when m.k is not null then array[m.k] end, case when m.t is not null then array[m.t] end,
            case when m.h is not null then array[m.h] end, array[m.p::json],
            case
                when _store_deduplicated.checksums
                    then mqpg._checksum(m.batch_id, _store_deduplicated.topic_id, m.p, m.k, m.t, m.h)
            end
        from message m
    )
    insert into mqpg.delayed (visible_at, xid, first_id, n, written_at, topic_id, queue_id)
    select _store_deduplicated.visible_at + b.ahead, v_xid, m.batch_id * 1024, 1, b.written_at,
        _store_deduplicated.topic_id, m.queue_id
    from message m
    cross join mqpg._broker_time(v_now) b
    where _store_deduplicated.visible_at is not null;
    return (select array_agg(coalesce(u.f, u.m) order by u.o)
        from unnest(v_ids, v_first) with ordinality as u(m, f, o));
end
$$;
