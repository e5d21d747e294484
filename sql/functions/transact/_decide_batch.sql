-- Writes one decision over many half messages. The outcomes come in the order of the arguments, and
-- a handle named twice is decided once. All decisions have one order number, so they are ordered by
-- message id among themselves (I6). All callers take the keys in ascending order, so they cannot
-- deadlock. REPEATABLE READ callers get 40001 for a decision that they do not see. _decide_run()
-- decides at less cost what prepare_batch() returned and nobody decided yet.
-- Locks: the op_log keys; waits for decisions that are under way.
-- Cost: one row read and one written for each.
create function mqpg._decide_batch(handles text [], op "char", decided_by text, payloads text [] default null)
returns table (handle text, outcome mqpg.outcome)
language plpgsql set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off as $$
declare
    v_xid xid8;
    v_order bigint;
    v_now timestamptz;
    v_ahead interval;       -- if one has a delay
    v_broker text := (select b.broker_id from mqpg.broker b);
    -- Texts that may be handles: places, texts, ids. The batches are distinct, ascending.
    v_named record;
    v_ids bigint [];        -- for each handle: the message id, null if unknown
    v_facts record;         -- for each handle: topic, queue, delay and relay of its half message
    v_halves bigint [];     -- distinct, ascending
    v_finals bigint [];     -- for each of v_halves: the batch id of the final payload
    v_topics int [];        -- for each of v_halves: topic, queue, delay
    v_queues smallint [];
    v_delays interval [];
    v_relays boolean [];    -- for each of v_halves: true if its topic is a relay topic, else null
    v_relayed bigint [] := '{}';    -- those of v_decided whose topic is one
    v_decided bigint [];    -- those that this call decided
begin
    if array_ndims(_decide_batch.handles) > 1 then
        raise exception using errcode = 'MQ001', message = 'handles must be a one-dimensional array';
    end if;
    if _decide_batch.handles is null or array_position(_decide_batch.handles, null) is not null then
        raise exception using errcode = 'MQ001', message = 'handles must not be null and must not contain null';
    end if;
    if not mqpg._is_owner() then
        perform mqpg._require_half_of(null);
    end if;
    perform mqpg._require_shape('payloads', _decide_batch.payloads, cardinality(_decide_batch.handles));
    if cardinality(_decide_batch.handles) = 0 then
        return;
    end if;
    perform mqpg._force_sync();
    if _decide_batch.payloads is null
        and mqpg._decide_run(_decide_batch.handles, _decide_batch.op, _decide_batch.decided_by) then
        return query
        select u.handle, (case _decide_batch.op when 'c' then 'committed' else 'rolled_back' end)::mqpg.outcome
        from unnest(_decide_batch.handles) as u(handle);
        return;
    end if;
    select array_agg(p.place) as places, array_agg(p.handle) as handles, array_agg(p.message_id) as ids,
        array_agg(distinct p.message_id / 1024) as batches into v_named
    from mqpg._handle_ids(_decide_batch.handles) p;
    -- Read each record batch once, however many of its half messages are named. A text is a handle
    -- where it is the very one that the half message has.
    with named as materialized (
        select n.place, n.handle, n.id
        from unnest(v_named.places, v_named.handles, v_named.ids) as n(place, handle, id)
    ),
    batch as materialized (
        select l.batch_id, l.n, l.nonce, l.incarnation, l.topic_id, l.queue_id, l.delay, l.relay, l.producer_group_id
        from mqpg.commit_log l
        where l.batch_id = any(v_named.batches)
            and l.batch_id between v_named.batches[1] and v_named.batches[cardinality(v_named.batches)]
    ),
    half as (
        select n.place, n.id, b.topic_id, b.queue_id, b.delay, b.relay, b.producer_group_id
        from named n
        join batch b on b.batch_id = n.id / 1024 and n.id % 1024 < b.n
            and mqpg._handle(v_broker, b.incarnation, n.id, b.nonce) = n.handle
        union all
        select n.place, n.id, h.topic_id, h.queue_id, h.delay, h.relay, h.producer_group_id
        from named n
        join mqpg.held h on h.message_id = n.id
        where h.kind = 'h' and mqpg._handle(v_broker, h.incarnation, n.id, h.nonce) = n.handle
            and n.id / 1024 not in (select b.batch_id from batch b)
    )
    select array_agg(h.id order by p.place) as ids, array_agg(h.topic_id order by p.place) as topics,
        array_agg(h.queue_id order by p.place) as queues, array_agg(h.delay order by p.place) as delays,
        array_agg(h.relay order by p.place) as relays,
        array_agg(distinct h.producer_group_id) filter (where h.id is not null) as groups into v_facts
    from generate_series(1, cardinality(_decide_batch.handles)) as p(place)
    left join half h using (place);
    if not mqpg._is_owner() then
        perform mqpg._require_half_of(coalesce(u.id, 0)) from unnest(v_facts.groups) as u(id);
        if _decide_batch.payloads is not null then
            perform mqpg._require_sender_of_final(u.id) from unnest(v_facts.topics) as u(id) where u.id is not null;
        end if;
    end if;
    v_ids := v_facts.ids;
    v_xid := pg_current_xact_id();    -- before the order number is drawn
    v_order := nextval('mqpg.batch_id');
    v_now := clock_timestamp();
    select array_agg(d.id order by d.id), array_agg(d.final order by d.id), array_agg(d.topic_id order by d.id),
        array_agg(d.queue_id order by d.id), array_agg(d.delay order by d.id), array_agg(d.relay order by d.id)
    into v_halves, v_finals, v_topics, v_queues, v_delays, v_relays
    from (
        select distinct on (u.id) u.id, u.topic_id, u.queue_id, u.delay, u.relay,
            case when u.p is not null or u.relay then nextval('mqpg.batch_id') end as final
        from unnest(v_ids, _decide_batch.payloads, v_facts.topics, v_facts.queues, v_facts.delays, v_facts.relays)
            with ordinality as u(id, p, topic_id, queue_id, delay, relay, o)
        where u.id is not null order by u.id, u.o
    ) as d;
    if cardinality(array_remove(v_delays, null)) > 0 then
        v_ahead := mqpg._ahead();
    end if;
    with stored as (
        insert into mqpg.op_log (
            message_id, stage, order_no, xid, op, deliver_id, at, visible_at, topic_id, queue_id, decided_by)
        select h.id, 0, v_order, v_xid, _decide_batch.op, h.final * 1024, v_now,
            case when _decide_batch.op = 'c' then case when h.relay then 'infinity' else v_now + h.delay + v_ahead end end,
                h.topic_id, h.queue_id,
            _decide_batch.decided_by
        from unnest(v_halves, v_finals, v_topics, v_queues, v_delays, v_relays)
            as h(id, final, topic_id, queue_id, delay, relay)
        order by h.id
        on conflict do nothing returning message_id
    )
    select coalesce(array_agg(s.message_id), '{}') into v_decided from stored s;
    if array_position(v_relays, true) is not null then
        v_relayed := array(
            select h.id from unnest(v_halves, v_relays) as h(id, relay) where h.relay and h.id = any(v_decided));
        perform mqpg._relay_decisions(v_xid, v_now, _decide_batch.op, v_ids, _decide_batch.payloads, v_halves, v_finals,
            v_relayed);
    end if;
    if _decide_batch.op = 'c' then
        perform mqpg._store_finals(v_xid, v_now, v_ids, _decide_batch.payloads, v_halves, v_finals, case
            when v_relayed <> '{}' then array(select unnest(v_decided) except select unnest(v_relayed))
            else v_decided
        end);
        if cardinality(array_remove(v_delays, null)) > 0 then
            insert into mqpg.delayed (visible_at, xid, first_id, deliver_id, n, written_at, topic_id, queue_id)
            select o.visible_at, v_xid, o.message_id, o.deliver_id, 1, b.written_at, o.topic_id, o.queue_id
            from mqpg.op_log o
            cross join mqpg._broker_time(v_now) b
            where o.message_id = any(v_decided) and o.message_id between v_halves[1] and v_halves[cardinality(v_halves)]
                and o.stage = 0 and o.visible_at < 'infinity';
        end if;
    end if;
    if cardinality(v_decided) = cardinality(_decide_batch.handles) then
        return query
        select u.handle, (case _decide_batch.op when 'c' then 'committed' else 'rolled_back' end)::mqpg.outcome
        from unnest(_decide_batch.handles) as u(handle);
        return;
    end if;
    return query
    select u.handle, case
        when u.id is null then mqpg._unknown(u.handle)
        when u.id = any(v_decided) and row_number() over (partition by u.id order by u.o) = 1
            then case _decide_batch.op when 'c' then 'committed' else 'rolled_back' end
        else case s.op when 'c' then 'already_committed' else 'already_rolled_back' end
    end::mqpg.outcome
    from unnest(_decide_batch.handles, v_ids) with ordinality as u(handle, id, o)
    left join lateral (
        select l.op from mqpg.op_log l where l.message_id = u.id and l.stage = 0
    ) as s on true
    order by u.o;
end
$$;
