-- What is stored of the half message that a handle names, also when its segment was dropped.
-- `known` is false for a handle of another broker, a wrong nonce, a row that a restore lost and a
-- topic that was dropped.
-- Locks: none. Cost: one row of the commit log.
create function mqpg._half_by_handle(
    handle text, out known boolean, out message_id bigint, out topic_id int, out topic text,
    out producer_group_id int, out key text, out headers jsonb, out payload json, out born_at timestamptz,
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
    select v_handle.message_id, m.topic_id, t.name, m.producer_group_id, m.key, m.headers, m.payload, m.born_at,
        mqpg._ledger_of(m.nonce)
    into message_id, topic_id, topic, producer_group_id, key, headers, payload, born_at, ledger
    from mqpg._message(v_handle.message_id) m
    join mqpg.topic t on t.topic_id = m.topic_id
    where m.kind = 'h' and m.incarnation = v_handle.incarnation
        and mqpg._handle_nonce(m.nonce, v_handle.message_id) = uuid_send(v_handle.nonce);
    _half_by_handle.known := found;
    if not found then
        perform mqpg._unknown(_half_by_handle.handle);
    end if;
end
$$;
