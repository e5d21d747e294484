-- The state of a message, as find_by_key() returns it, and for an appended one its tick and offset,
-- which are null if those rows were dropped. body_id is the message id that the body lies under,
-- because a commit may have brought another payload.
-- Locks: none. Cost: a few index lookups; twice log2(ticks) more for a transaction that was open
-- during a tick, or a delay.
create function mqpg._message_state(
    message_id bigint, topic_id int, queue_id int, kind "char", xid xid8,
    out state text, out body_id bigint, out tick_id bigint, out queue_offset bigint
)
language plpgsql stable as $$
declare
    v_op mqpg.op_log;
    v_due mqpg.op_log;
    v_delayed mqpg.delayed;
begin
    body_id := _message_state.message_id;
    if _message_state.kind = 'h' then
        select o.* into v_op from mqpg.op_log o where o.message_id = _message_state.message_id and o.stage = 0;
        if v_op.op is null or v_op.op = 'b' then
            state := case when v_op.op is null then 'prepared' else 'rolled_back' end;
            return;
        end if;
        if v_op.visible_at = 'infinity' then
            state := 'relayed';
            return;
        end if;
        body_id := coalesce(v_op.deliver_id, _message_state.message_id);
    end if;
    if _message_state.kind = 'd' or v_op.visible_at is not null then
        select o.* into v_due from mqpg.op_log o where o.message_id = _message_state.message_id and o.stage = 1;
        if v_due.op = 'r' then
            state := 'recalled';
            return;
        end if;
        -- A message postponed by an open recall has several rows. Only the transaction that decided
        -- says which counted.
        select d.* into v_delayed from mqpg.delayed d
        where d.first_id between _message_state.message_id - 1023 and _message_state.message_id
            and d.first_id + d.n > _message_state.message_id and d.subscription_id = 0
        order by d.first_id desc, d.visible_at desc limit 1;
        -- Without a row it was appended: a row is dropped only after that, when its retention is
        -- over.
        tick_id := case
            when v_due.op = 'd' then (select min(t.tick_id) from mqpg.tick t where t.xid = v_due.xid)
            else mqpg._tick_of_transaction(v_delayed.xid, v_delayed.visible_at)
        end;
        state := case
            when v_due.op is null and tick_id is null and v_delayed.xid is not null then 'delayed'
            else 'appended'
        end;
    else
        tick_id := mqpg._tick_of_transaction(coalesce(v_op.xid, _message_state.xid));
        state := case
            when tick_id is not null then 'appended'
            when _message_state.kind = 'h' then 'committed'
            else 'pending'
        end;
    end if;
    queue_offset := mqpg._offset_in_tick(tick_id, _message_state.topic_id, _message_state.queue_id, 0,
        _message_state.message_id);
end
$$;
