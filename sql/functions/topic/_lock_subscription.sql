-- The subscription of a consumer group to a topic, locked, so that no other transaction changes it
-- until this one ends. A broadcast group is also locked as by _lock_group().
-- Locks: its row, FOR NO KEY UPDATE, up to the setting lock_timeout.
-- Cost: one row.
create function mqpg._lock_subscription(consumer_group text, topic text) returns mqpg.subscription
language plpgsql as $$
declare
    v_subscription mqpg.subscription := mqpg._subscription(_lock_subscription.consumer_group, _lock_subscription.topic);
    v_timeout text;
begin
    perform mqpg._lock_group(v_subscription);
    v_timeout := mqpg._apply_lock_timeout();
    select s.* into v_subscription from mqpg.subscription s
    where s.subscription_id = v_subscription.subscription_id
    for no key update;
    perform set_config('lock_timeout', v_timeout, true);
    if v_subscription.subscription_id is null then
        raise exception using errcode = 'MQ005', message = format(
            'consumer group %L was unsubscribed meanwhile', _lock_subscription.consumer_group);
    end if;
    return v_subscription;
end
$$;
