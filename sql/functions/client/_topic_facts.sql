-- What the library needs to know of a topic before it sends or receives. No row: there is none.
-- Locks: none. Cost: negligible.
create function mqpg._topic_facts(topic text) returns table (queues int, kind text, max_payload int)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_topic_id int := (select t.topic_id from mqpg.topic t where t.name = _topic_facts.topic);
begin
    if not (mqpg._has_right('send', v_topic_id) or mqpg._has_right('read', v_topic_id)
        or mqpg._has_privilege('operator')) then
        perform mqpg._refuse(format('may not use topic %L', _topic_facts.topic),
            'grant_send', jsonb_build_object('topic', _topic_facts.topic));
    end if;
    return query
    select t.queues, t.kind, t.max_payload from mqpg.topic t where t.name = _topic_facts.topic;
end
$$;
