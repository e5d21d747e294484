-- Writes the decision over one half message, or returns the one that stands (protocol T2, step 3;
-- I3). The insert and the look at the standing decision are two statements, because one statement
-- cannot see the row that it waited for. REPEATABLE READ callers then get 40001. A final payload
-- becomes a row of the commit log, written only with a decision that counts. _decide_batch() and
-- _decide_run() follow the same rules for many, and tests/sql/test_decided_alike.py compares the
-- three.
-- Locks: the op_log key; waits for a decision that is under way.
-- Cost: one row read and one written.
create function mqpg._decide(
    handle text, op "char", decided_by text, reason text default null, payload text default null
) returns mqpg.outcome
language plpgsql set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off as $$
declare
    v_id bigint;
    v_half record;
    v_xid xid8;
    v_order bigint;
    v_now timestamptz;
    v_due timestamptz;  -- if it has a delay
    v_standing "char";
begin
    if _decide.handle is null then
        raise exception using errcode = 'MQ001', message = 'handle must not be null';
    end if;
    -- The usual case is one statement. If it writes nothing, because the half message is not here,
    -- is decided, or needs more than this row, the call continues below.
    if _decide.payload is null and current_setting('synchronous_commit') not in ('off', 'local')
        and current_setting('transaction_read_only') = 'off' then
        v_id := mqpg._message_of_handle(_decide.handle);
        v_xid := pg_current_xact_id();    -- before the order number is drawn
        v_order := nextval('mqpg.batch_id');
        v_now := clock_timestamp();    -- with a volatile function in it, the query would be a step of its own
        insert into mqpg.op_log (message_id, stage, order_no, xid, op, at, topic_id, queue_id, decided_by, reason)
        select v_id, 0, v_order, v_xid, _decide.op, v_now, l.topic_id, l.queue_id, _decide.decided_by,
            _decide.reason
        from mqpg.commit_log l
        where l.batch_id = v_id / 1024 and v_id % 1024 < l.n and l.delay is null and l.relay is null
            and mqpg._handle((select b.broker_id from mqpg.broker b), l.incarnation, v_id, l.nonce) = _decide.handle
            and (_decide.decided_by <> 'producer' or mqpg._may((
                select g.producers from mqpg.producer_group g where g.producer_group_id = l.producer_group_id)))
        on conflict do nothing;
        if found then
            return case _decide.op when 'c' then 'committed'::mqpg.outcome else 'rolled_back' end;    -- a text would be cast
        end if;
    end if;
    if not mqpg._is_handle(_decide.handle) then
        if _decide.decided_by = 'producer' then
            perform mqpg._require_half_of(null);
        end if;
        return 'unknown';
    end if;
    -- Looked up first, because this is rarely true and saves a call.
    if current_setting('synchronous_commit') in ('off', 'local') then
        perform mqpg._force_sync();
    end if;
    v_id := split_part(_decide.handle, '.', 3)::bigint;
    select l.topic_id, l.queue_id, l.delay, l.relay, l.producer_group_id, g.producers,
        l.keys[v_id % 1024 + 1] as key, l.tags[v_id % 1024 + 1] as tag, l.headers[v_id % 1024 + 1] as headers
    into v_half
    from mqpg.commit_log l
    cross join mqpg.broker b
    left join mqpg.producer_group g on g.producer_group_id = l.producer_group_id
    where l.batch_id = v_id / 1024 and v_id % 1024 < l.n
        and mqpg._handle_nonce(l.nonce, v_id) = decode(right(_decide.handle, 32), 'hex')
        and l.incarnation = split_part(_decide.handle, '.', 2)::int
        and b.broker_id = split_part(_decide.handle, '.', 1);
    if not found then
        select h.topic_id, h.queue_id, h.delay, h.relay, h.producer_group_id, g.producers, h.key, h.tag, h.headers
        into v_half
        from mqpg.held h
        cross join mqpg.broker b
        left join mqpg.producer_group g on g.producer_group_id = h.producer_group_id
        where h.message_id = v_id and h.kind = 'h'
            and mqpg._handle_nonce(h.nonce, v_id) = decode(right(_decide.handle, 32), 'hex')
            and h.incarnation = split_part(_decide.handle, '.', 2)::int
            and b.broker_id = split_part(_decide.handle, '.', 1);
        if not found then
            perform mqpg._unknown(_decide.handle);
            if _decide.decided_by = 'producer' then
                perform mqpg._require_half_of(null);
            end if;
            return 'unknown';
        end if;
    end if;
    if _decide.decided_by = 'producer' and not mqpg._may(v_half.producers) then
        perform mqpg._require_half_of(v_half.producer_group_id);
    end if;
    if _decide.payload is not null and _decide.decided_by = 'producer' then
        perform mqpg._require_sender_of_final(v_half.topic_id);
    end if;
    v_xid := pg_current_xact_id();    -- before the order number is drawn
    v_order := nextval('mqpg.batch_id');
    v_now := clock_timestamp();
    if _decide.op = 'c' and v_half.delay is not null then
        v_due := v_now + v_half.delay + mqpg._ahead();
    end if;
    insert into mqpg.op_log (
        message_id, stage, order_no, xid, op, deliver_id, at, visible_at, topic_id, queue_id, decided_by, reason)
    values (
        v_id, 0, v_order, v_xid, _decide.op,
        case when _decide.payload is not null or v_half.relay then v_order * 1024 end, v_now,
        case when v_half.relay and _decide.op = 'c' then 'infinity' else v_due end,
        v_half.topic_id, v_half.queue_id, _decide.decided_by, _decide.reason)
    on conflict do nothing;
    if not found then
        select o.op into strict v_standing from mqpg.op_log o
        where o.message_id = v_id and o.stage = 0;
        return case v_standing when 'c' then 'already_committed' else 'already_rolled_back' end;
    end if;
    if v_half.relay then
        perform mqpg._relay_decisions(v_xid, v_now, _decide.op, array[v_id], array[_decide.payload],
            array[v_id], array[v_order], array[v_id]);
        return case _decide.op when 'c' then 'committed' else 'rolled_back' end;
    end if;
    if _decide.payload is not null then
        perform mqpg._require_payload('payload', _decide.payload, t.name, t.max_payload)
        from mqpg.topic t where t.topic_id = v_half.topic_id;
        insert into mqpg.commit_log (
            batch_id, xid, born_at, topic_id, queue_id, n, kind, keys, tags, headers, payloads, checksum)
        values (
            v_order, v_xid, v_now, v_half.topic_id, v_half.queue_id, 1, 'f',
            case when v_half.key is not null then array[v_half.key] end,
            case when v_half.tag is not null then array[v_half.tag] end,
            case when v_half.headers is not null then array[v_half.headers] end,
            array[_decide.payload::json],
            case
                when (select t.checksums from mqpg.topic t where t.topic_id = v_half.topic_id)
                    then mqpg._checksum(
                        v_order, v_half.topic_id, _decide.payload, v_half.key, v_half.tag, v_half.headers)
            end);
    end if;
    if v_due is not null then
        insert into mqpg.delayed (visible_at, xid, first_id, deliver_id, n, written_at, topic_id, queue_id)
        select o.visible_at, v_xid, v_id, o.deliver_id, 1, b.written_at, v_half.topic_id, v_half.queue_id
        from mqpg.op_log o
        cross join mqpg._broker_time(v_now) b
        where o.message_id = v_id and o.stage = 0;
    end if;
    return case _decide.op when 'c' then 'committed' else 'rolled_back' end;
end
$$;
