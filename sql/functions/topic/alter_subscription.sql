-- Changes a subscription's retry policy; null leaves a value as it is. Mode and start are fixed.
-- Locks: the subscription's row. Cost: one update. Errors: MQ001, MQ003, MQ005.
create function mqpg.alter_subscription(
    consumer_group text, topic text, max_attempts int default null, retry_delay interval default null
) returns void
language plpgsql as $$
declare
    v_subscription mqpg.subscription :=
        mqpg._subscription(alter_subscription.consumer_group, alter_subscription.topic);
begin
    if alter_subscription.max_attempts is not null then
        perform mqpg._check_range('max_attempts', alter_subscription.max_attempts, 1, 10000);
    end if;
    if alter_subscription.retry_delay is not null then
        perform mqpg._interval('retry_delay', alter_subscription.retry_delay, '0');
    end if;
    update mqpg.subscription s set
        max_attempts = coalesce(alter_subscription.max_attempts, s.max_attempts),
        retry_delay = coalesce(alter_subscription.retry_delay, s.retry_delay)
    where s.subscription_id = v_subscription.subscription_id;
end
$$;
comment on function mqpg.alter_subscription(text, text, int, interval) is 'Change a subscription''s retry policy';
