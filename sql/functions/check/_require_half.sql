-- The half message that a handle names, for calls that answer or steer its check-back.
-- Locks: none. Cost: one row of the commit log.
create function mqpg._require_half(handle text, out message_id bigint, out producer_group_id int, out decided boolean)
language plpgsql stable as $$
declare
    v_half record;
begin
    if _require_half.handle is null then
        raise exception using errcode = 'MQ001', message = 'handle must not be null';
    end if;
    select h.* into v_half from mqpg._half_by_handle(_require_half.handle) h;
    if not v_half.known then
        raise exception using errcode = 'MQ006',
            message = format('handle %L is unknown to this broker', left(_require_half.handle, 100));
    end if;
    message_id := v_half.message_id;
    producer_group_id := v_half.producer_group_id;
    decided := mqpg._is_decided_half(v_half.message_id);
end
$$;
