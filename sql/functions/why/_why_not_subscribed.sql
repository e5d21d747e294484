-- A group that does not read a topic. The name may be a typing error, so an operator or an auditor
-- learns which groups do, and what the group reads instead.
-- Locks: none. Cost: one row for each of at most ten groups and ten topics.
create function mqpg._why_not_subscribed(consumer_group text, topic mqpg.topic)
returns table (cause text, detail jsonb, remedy jsonb)
language plpgsql stable as $$
declare
    v_group text := _why_not_subscribed.consumer_group;
    v_topic mqpg.topic := _why_not_subscribed.topic;
    v_groups text [];
    v_topics text [];
begin
    if mqpg._has_privilege('operator', 'auditor') then
        v_groups := array(
            select s.consumer_group from mqpg.subscription s
            where s.topic_id = v_topic.topic_id and s.member = '' order by 1 limit 10);
        v_topics := array(
            select t.name from mqpg.subscription s join mqpg.topic t on t.topic_id = s.topic_id
            where s.consumer_group = v_group and s.member = '' order by 1 limit 10);
    end if;
    cause := 'not_subscribed';
    detail := jsonb_strip_nulls(jsonb_build_object('consumer_group', v_group, 'topic', v_topic.name,
        'groups', to_jsonb(v_groups), 'topics', to_jsonb(v_topics)));
    if exists (select from mqpg.producer_group p where p.name = v_group) then
        detail := detail || jsonb_build_object('producer_group', v_group);
    else
        remedy := mqpg._remedy('subscribe', jsonb_build_object('consumer_group', v_group, 'topic', v_topic.name));
    end if;
    return next;
end
$$;
