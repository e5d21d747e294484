-- Refuses a final payload over the topic's limit (MQ010).
-- Locks: none. Cost: one index lookup.
create function mqpg._check_final(argument text, topic_id int, payload text) returns void
language plpgsql stable as $$
declare
    v_limit int := (select t.max_payload from mqpg.topic t where t.topic_id = _check_final.topic_id);
begin
    if octet_length(_check_final.payload) > v_limit then
        raise exception using errcode = 'MQ010', message = format(
            '%s has %s bytes; the topic allows %s', _check_final.argument,
            octet_length(_check_final.payload), v_limit);
    end if;
end
$$;
comment on function mqpg._check_final(text, int, text) is 'Internal: refuse an oversized final payload';
