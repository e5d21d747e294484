-- Lets a subscription not end before the transaction does, so that the caller can write rows that
-- belong to it, or refuses if it has ended. receive() calls it before it writes dead letters, and
-- nack(), with its receipt.
-- Locks: its row, FOR KEY SHARE, waiting up to the setting lock_timeout.
-- Cost: one row.
-- Errors: MQ005 (it has ended), MQ007 (the same, if there is a receipt), 55P03, 40001.
create function mqpg._require_subscribed(subscription mqpg.subscription, receipt text default null) returns void
language plpgsql as $$
declare
    v_timeout text := mqpg._apply_lock_timeout();
begin
    perform from mqpg.subscription s
    where s.subscription_id = (_require_subscribed.subscription).subscription_id for key share;
    if not found and _require_subscribed.receipt is not null then
        raise exception using errcode = 'MQ007', message = format(
            'receipt %L belongs to no subscription here', _require_subscribed.receipt);
    elsif not found then
        raise exception using errcode = 'MQ005', message = format(
            'consumer group %L was unsubscribed meanwhile', (_require_subscribed.subscription).consumer_group);
    end if;
    perform set_config('lock_timeout', v_timeout, true);
end
$$;
