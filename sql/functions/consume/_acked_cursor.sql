-- The cursor of a receipt's queue without the claim of the receipt, not written yet; `epoch` is that
-- of the claim. receive() passes it on until it knows whether the version of a new claim can say
-- both; if not, _write_ack() writes it. Returns null if nothing is left of the delivery.
-- Arguments:
--   receipt: the argument `ack` of receive().
--   subscription: the one that receives; the receipt must be of it.
--   consumer_group, topic, consumer: as given to receive(), for the error.
-- Locks, cost: as _claim_of_receipt(), without a cursor version.
-- Errors: MQ001 (another subscription), and those of _claim_of_receipt().
create function mqpg._acked_cursor(
    receipt text, subscription mqpg.subscription, consumer_group text, topic text, consumer text
) returns mqpg.cursor
language plpgsql as $$
declare
    v_open record := mqpg._claim_of_receipt(_acked_cursor.receipt, may_be_done => true);
    v_cursor mqpg.cursor := v_open.last_version;
begin
    if (v_open.subscription).subscription_id is distinct from _acked_cursor.subscription.subscription_id then
        raise exception using errcode = 'MQ001', message = format(
            'ack must be a receipt of consumer group %L on topic %L%s', _acked_cursor.consumer_group,
            _acked_cursor.topic, case _acked_cursor.subscription.mode
                when 'broadcast' then format(' for consumer %L', _acked_cursor.consumer)
                else ''
            end);
    end if;
    if (v_open.claim).epoch is null then
        return null;
    end if;
    v_cursor.epoch := (v_open.claim).epoch;
    v_cursor.claims := v_open.rest;
    return v_cursor;
end
$$;
