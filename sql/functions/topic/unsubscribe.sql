-- Ends a subscription, or one member of a broadcast group. Its positions, claims, retries and dead
-- letters are deleted, and no message is stored for it any longer. Receipts of what is in flight
-- become invalid. A group that subscribes again starts as a new one.
-- Arguments:
--   consumer_group, topic: names of the group and the topic.
--   consumer: name of the member of a broadcast group to remove; null (default) ends the whole
--       subscription.
-- Locks: the subscription's rows, waited for up to the setting lock_timeout: an open transaction
-- that has made a dead letter keeps them.
-- Cost: one delete per row.
-- Errors: MQ001 (consumer in another mode than broadcast), MQ003 (unknown topic), MQ005 (unknown
-- subscription or member), 55P03.
create function mqpg.unsubscribe(consumer_group text, topic text, consumer text default null) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_checked boolean := mqpg._require_privilege('operator');
    v_subscription mqpg.subscription := mqpg._subscription(unsubscribe.consumer_group, unsubscribe.topic);
    v_timeout text;
begin
    if unsubscribe.consumer is not null and v_subscription.mode <> 'broadcast' then
        raise exception using errcode = 'MQ001', message = format(
            'consumer is allowed only in mode broadcast; consumer group %L reads topic %L in mode %s',
            unsubscribe.consumer_group, unsubscribe.topic, v_subscription.mode);
    end if;
    v_timeout := mqpg._apply_lock_timeout();
    delete from mqpg.subscription s
    where (unsubscribe.consumer is null and s.subscription_id = v_subscription.subscription_id)
        or (s.member_of = v_subscription.subscription_id and s.member = unsubscribe.consumer);
    if not found and unsubscribe.consumer is null then
        raise exception using errcode = 'MQ005', message = format(
            'consumer group %L was unsubscribed meanwhile', unsubscribe.consumer_group);
    elsif not found then
        raise exception using errcode = 'MQ005', message = format(
            'consumer %L is not a member of broadcast group %L on topic %L', unsubscribe.consumer,
            unsubscribe.consumer_group, unsubscribe.topic);
    end if;
    perform set_config('lock_timeout', v_timeout, true);
end
$$;
