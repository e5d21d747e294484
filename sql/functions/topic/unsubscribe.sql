-- Ends a subscription: its position, claims, retries and dead letters are gone; open receipts are refused.
-- Locks: the subscription's row. Cost: one delete. Errors: MQ003, MQ005.
create function mqpg.unsubscribe(consumer_group text, topic text) returns void
language plpgsql as $$
declare
    v_subscription mqpg.subscription := mqpg._subscription(unsubscribe.consumer_group, unsubscribe.topic);
begin
    delete from mqpg.subscription s where s.subscription_id = v_subscription.subscription_id;
end
$$;
comment on function mqpg.unsubscribe(text, text) is 'End a subscription';
