-- What is so with an id that names no stored message. Where transactions are open that may have
-- written it, it says which; else it raises the error.
-- Locks: none. Cost: reads the server's list of locks.
-- Errors: MQ001 (an id), MQ006 (a handle).
create function mqpg._why_unknown(message_id bigint, is_handle boolean)
returns table (cause text, detail jsonb, remedy jsonb)
language plpgsql stable as $$
declare
    v_sessions jsonb [];
begin
    perform mqpg._require_fresh(_why_unknown.message_id);
    if _why_unknown.message_id / 1024 > (select t.floor_id from mqpg.tick t order by t.tick_id desc limit 1)
        and _why_unknown.message_id / 1024 <= (
            select case when b.is_called then b.last_value else 0 end from mqpg.batch_id b) then
        v_sessions := mqpg._table_sessions('mqpg.commit_log', 'RowExclusiveLock');
    end if;
    if v_sessions <> '{}' then
        cause := 'transaction_open';
        detail := v_sessions[1] || jsonb_build_object('sessions', cardinality(v_sessions));
        return next;
        return;
    end if;
    if _why_unknown.is_handle then
        raise exception using errcode = 'MQ006', message = 'handle names no half message here',
            hint = 'It was rolled back with its transaction, belongs to another broker, or its retention is over.';
    end if;
    raise exception using errcode = 'MQ001',
        message = format('message_id %s names no message here', _why_unknown.message_id),
        hint = 'It was rolled back with its transaction, belongs to another broker, or its retention is over.';
end
$$;
