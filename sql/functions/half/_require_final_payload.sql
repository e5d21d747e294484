-- Raises for a final payload that exceeds the topic's limit.
-- Locks: none. Cost: one index lookup.
create function mqpg._require_final_payload(argument text, topic_id int, payload text) returns void
language plpgsql stable as $$
declare
    v_limit int := (select t.max_payload from mqpg.topic t where t.topic_id = _require_final_payload.topic_id);
begin
    if octet_length(_require_final_payload.payload) > v_limit then
        raise exception using errcode = 'MQ010', message = format(
            '%s has %s bytes; the topic allows %s', _require_final_payload.argument,
            octet_length(_require_final_payload.payload), v_limit);
    end if;
end
$$;
