-- Ends a subscription, of a broadcast group with all its members; with `consumer` only that member of it. Positions,
-- claims, retries and dead letters are gone, nothing is kept for it any more, and its open receipts are refused.
-- What it had in flight goes on where it is, but cannot be acknowledged. The name subscribed again begins anew.
-- Locks: the subscription's rows. Cost: one delete a row. Errors: MQ001 (consumer in another mode), MQ003, MQ005.
create function mqpg.unsubscribe(consumer_group text, topic text, consumer text default null) returns void
language plpgsql as $$
declare
    v_subscription mqpg.subscription := mqpg._subscription(unsubscribe.consumer_group, unsubscribe.topic);
begin
    if unsubscribe.consumer is null then
        delete from mqpg.subscription s where s.subscription_id = v_subscription.subscription_id;
        return;
    end if;
    if v_subscription.mode <> 'broadcast' then
        raise exception using errcode = 'MQ001', message = format(
            'consumer is for mode broadcast; consumer group %L reads topic %L in mode %s',
            unsubscribe.consumer_group, unsubscribe.topic, v_subscription.mode);
    end if;
    delete from mqpg.subscription s
    where s.member_of = v_subscription.subscription_id and s.member = unsubscribe.consumer;
    if not found then
        raise exception using errcode = 'MQ005', message = format(
            'consumer %L is no member of broadcast group %L on topic %L', unsubscribe.consumer,
            unsubscribe.consumer_group, unsubscribe.topic);
    end if;
end
$$;
comment on function mqpg.unsubscribe(text, text, text) is 'End a subscription, or one member of a broadcast group';
