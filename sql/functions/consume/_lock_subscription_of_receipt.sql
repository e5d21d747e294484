-- Lets the subscription of a receipt not end before the transaction does, so that the caller can
-- write rows that belong to it.
-- Locks: its row, FOR KEY SHARE, waiting up to the setting lock_timeout.
-- Cost: one row.
-- Errors: MQ007 (it has ended), 55P03, 40001.
create function mqpg._lock_subscription_of_receipt(receipt text, subscription_id int) returns void
language plpgsql as $$
declare
    v_timeout text;
begin
    v_timeout := mqpg._apply_lock_timeout();
    perform from mqpg.subscription s
    where s.subscription_id = _lock_subscription_of_receipt.subscription_id for key share;
    if not found then
        raise exception using errcode = 'MQ007', message = format(
            'receipt %L belongs to no subscription here', _lock_subscription_of_receipt.receipt);
    end if;
    perform set_config('lock_timeout', v_timeout, true);
end
$$;
