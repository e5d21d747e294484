-- The subscription of a consumer group to a topic, for a caller that may receive for it; in mode
-- broadcast the group's own row. Only a caller whose right would cover the subscription learns that
-- there is none.
-- Locks: none. Cost: two index lookups; one look at role_right if the row notes no role of the
-- caller.
create function mqpg._require_subscription(consumer_group text, topic text) returns mqpg.subscription
language plpgsql stable as $$
declare
    v_topic_id int;
    v_subscription mqpg.subscription;
begin
    select t.topic_id into v_topic_id from mqpg.topic t where t.name = _require_subscription.topic;
    select s.* into v_subscription from mqpg.subscription s
    where s.topic_id = v_topic_id and s.consumer_group = _require_subscription.consumer_group and s.member = '';
    if not found then
        perform mqpg._require_name('topic', _require_subscription.topic);
        perform mqpg._require_name('consumer_group', _require_subscription.consumer_group);
    end if;
    if mqpg._is_among(v_subscription.receivers) or mqpg._has_right('receive', v_subscription.subscription_id) then
        if v_subscription.subscription_id is null then
            v_subscription := mqpg._subscription(_require_subscription.consumer_group, _require_subscription.topic);
        end if;
        return v_subscription;
    end if;
    if v_subscription.subscription_id is null and exists (
        select from mqpg.role_right r
        where r.privilege = 'receive' and r.subscription_id is null
            and (r.topic_id = v_topic_id or r.topic_id is null)
            and (r.consumer_group = _require_subscription.consumer_group or r.consumer_group is null)
            and pg_has_role(mqpg._caller(), r.role, 'usage')) then
        -- This raises the error.
        return mqpg._subscription(_require_subscription.consumer_group, _require_subscription.topic);
    end if;
    perform mqpg._refuse(
        format('may not receive for consumer group %L from topic %L', _require_subscription.consumer_group,
            _require_subscription.topic),
        'grant_receive', jsonb_build_object(
            'consumer_group', _require_subscription.consumer_group, 'topic', _require_subscription.topic));
end
$$;
