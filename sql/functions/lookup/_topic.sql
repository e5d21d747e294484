-- The topic of that name, or MQ001/MQ002/MQ003.
-- Locks: none. Cost: one index lookup.
create function mqpg._topic(topic text) returns mqpg.topic
language plpgsql stable as $$
declare
    v_topic mqpg.topic;
begin
    select t.* into v_topic from mqpg.topic t where t.name = _topic.topic;
    if not found then
        perform mqpg._require_name('topic', _topic.topic);
        raise exception using errcode = 'MQ003', message = format('topic %L does not exist', _topic.topic),
            hint = 'create_topic() makes one.';
    end if;
    return v_topic;
end
$$;
comment on function mqpg._topic(text) is 'Internal: topic by name, or an error';
