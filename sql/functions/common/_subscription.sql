-- The subscription of a consumer group to a topic; in mode broadcast the group's own row, no
-- member's.
-- Locks: none. Cost: two index lookups.
create function mqpg._subscription(consumer_group text, topic text) returns mqpg.subscription
language plpgsql stable as $$
declare
    v_topic_id int := (select t.topic_id from mqpg.topic t where t.name = _subscription.topic);
    v_subscription mqpg.subscription;
begin
    if v_topic_id is null then
        perform mqpg._require_name('topic', _subscription.topic);
        perform mqpg._require_fresh(null);
        raise exception using errcode = 'MQ003', message = format(
            'topic %L does not exist (the consumer group is named before it)', _subscription.topic),
            detail = mqpg._remedy('create_topic', jsonb_build_object('topic', _subscription.topic))::text,
            hint = 'create_topic() creates it.';
    end if;
    select s.* into v_subscription from mqpg.subscription s
    where s.topic_id = v_topic_id and s.consumer_group = _subscription.consumer_group
        and s.member = '';
    if not found then
        perform mqpg._require_name('consumer_group', _subscription.consumer_group);
        perform mqpg._require_fresh(null);
        raise exception using errcode = 'MQ005', message = format(
            'consumer group %L has no subscription to topic %L', _subscription.consumer_group, _subscription.topic),
            detail = mqpg._remedy('subscribe', jsonb_build_object(
                'consumer_group', _subscription.consumer_group, 'topic', _subscription.topic))::text,
            hint = 'subscribe() creates it.';
    end if;
    return v_subscription;
end
$$;
