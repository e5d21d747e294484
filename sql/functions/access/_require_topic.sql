-- The topic with that name, for a caller that may send to it or may read it. Only a caller that may
-- do so with all topics learns that there is no such topic. To send, the topic must have space.
-- Locks: none. Cost: one index lookup; one look at role_right if the row notes no role of the
-- caller.
create function mqpg._require_topic(topic text, privilege text) returns mqpg.topic
language plpgsql stable as $$
declare
    v_topic mqpg.topic;
begin
    select t.* into v_topic from mqpg.topic t where t.name = _require_topic.topic;
    if not found then
        perform mqpg._require_name('topic', _require_topic.topic);
    end if;
    if mqpg._is_among(case _require_topic.privilege when 'send' then v_topic.senders else v_topic.readers end)
        or mqpg._has_right(_require_topic.privilege, v_topic.topic_id) then
        if v_topic.topic_id is null then
            v_topic := mqpg._topic(_require_topic.topic);    -- raises
        end if;
        if v_topic.full_of is not null and _require_topic.privilege = 'send' then
            perform mqpg._require_space(v_topic);
        end if;
        return v_topic;
    end if;
    if _require_topic.privilege = 'send' then
        perform mqpg._refuse(format('may not send to topic %L', _require_topic.topic),
            'grant_send', jsonb_build_object('topic', _require_topic.topic));
    end if;
    perform mqpg._refuse(format('may not receive from topic %L', _require_topic.topic),
        'grant_receive', jsonb_build_object('consumer_group', null, 'topic', _require_topic.topic));
end
$$;
