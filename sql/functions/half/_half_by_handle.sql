-- What is stored of the half message that a handle names, also when its segment was dropped.
-- `known` is false for a handle of another broker, a wrong nonce, a row that a restore lost and a
-- topic that was dropped.
-- Locks: none. Cost: one row of the commit log.
create function mqpg._half_by_handle(
    handle text, out known boolean, out message_id bigint, out topic_id int, out topic text, out queue_id smallint,
    out producer_group_id int, out key text, out tag text, out headers jsonb, out payload json,
    out delay interval, out check_at timestamptz, out born_at timestamptz,
    out ledger text
)
language plpgsql stable as $$
declare
    v_handle record;
begin
    _half_by_handle.known := false;
    select p.* into v_handle from mqpg._parse_handle(_half_by_handle.handle) p
    join mqpg.broker b on b.broker_id = p.broker_id;
    if v_handle.message_id is null then
        return;
    end if;
    select true, v_handle.message_id, l.topic_id, t.name, l.queue_id, l.producer_group_id,
        l.keys[p.i], l.tags[p.i], l.headers[p.i], l.payloads[p.i], l.delay, l.check_at, l.born_at,
        mqpg._ledger_of(l.nonce)
    into known, message_id, topic_id, topic, queue_id, producer_group_id, key, tag, headers, payload, delay, check_at,
        born_at, ledger
    from (select v_handle.message_id % 1024 + 1 as i) as p, mqpg.commit_log l
    join mqpg.topic t on t.topic_id = l.topic_id
    where l.batch_id = v_handle.message_id / 1024
        and mqpg._handle_nonce(l.nonce, v_handle.message_id) = uuid_send(v_handle.nonce)
        and l.incarnation = v_handle.incarnation and p.i <= l.n;
    if _half_by_handle.known then
        return;
    end if;
    select true, h.message_id, h.topic_id, t.name, h.queue_id, h.producer_group_id,
        h.key, h.tag, h.headers, h.payload, h.delay, h.check_at, h.born_at,
        mqpg._ledger_of(h.nonce)
    into known, message_id, topic_id, topic, queue_id, producer_group_id, key, tag, headers, payload, delay, check_at,
        born_at, ledger
    from mqpg.held h
    join mqpg.topic t on t.topic_id = h.topic_id
    where h.message_id = v_handle.message_id and h.kind = 'h'
        and mqpg._handle_nonce(h.nonce, h.message_id) = uuid_send(v_handle.nonce)
        and h.incarnation = v_handle.incarnation;
    _half_by_handle.known := coalesce(_half_by_handle.known, false);
    if not _half_by_handle.known then
        perform mqpg._unknown(_half_by_handle.handle);
    end if;
end
$$;
