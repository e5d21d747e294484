-- The topic with that name.
-- Locks: none. Cost: one index lookup.
create function mqpg._topic(topic text) returns mqpg.topic
language plpgsql stable as $$
declare
    v_topic mqpg.topic;
begin
    select t.* into v_topic from mqpg.topic t where t.name = _topic.topic;
    if not found then
        perform mqpg._require_name('topic', _topic.topic);
        perform mqpg._require_fresh(null);
        raise exception using errcode = 'MQ003', message = format('topic %L does not exist', _topic.topic),
            detail = mqpg._remedy('create_topic', jsonb_build_object('topic', _topic.topic))::text,
            hint = 'create_topic() creates it.';
    end if;
    return v_topic;
end
$$;
