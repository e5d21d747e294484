-- The cursor of a receipt's queue without the claim of the receipt, not written yet; `epoch` is that
-- of the claim. receive() passes it on until it knows whether the version of a new claim can say
-- both; if not, _write_ack() writes it. Returns null if nothing is left of the delivery.
-- Arguments:
--   receipt: the argument `ack` of receive().
--   subscription: the one that receives; the receipt must be of it.
-- Locks, cost: as _claim_of_receipt().
-- Errors: MQ001 (another subscription), and those of _claim_of_receipt().
create function mqpg._acked_cursor(receipt text, subscription mqpg.subscription) returns mqpg.cursor
language plpgsql as $$
declare
    v_id int := _acked_cursor.subscription.subscription_id;
    v_signed text := left(_acked_cursor.receipt, -33);
    v_parts bigint [];
    v_open record;
    v_cursor mqpg.cursor;
begin
    -- The usual case, as in ack(): a receipt of this subscription whose claim is the only one of its
    -- queue. The caller has just read the secret, and may receive. Where a check fails,
    -- _claim_of_receipt() says why, or waits for the lock.
    if v_signed || '.' || mqpg._receipt_mac(_acked_cursor.subscription.receipt_secrets[1], v_signed)
        = _acked_cursor.receipt then
        v_parts := string_to_array(v_signed, '.');
        if v_parts[1] = v_id and pg_try_advisory_xact_lock_shared(1836150843, v_id)
            and mqpg._lock_free_cursor(v_id, v_parts[2]::int) then
            v_cursor := mqpg._cursor(v_id, v_parts[2]::int);
            if v_cursor.version = v_parts[3] / 1048576 and v_cursor.epoch = v_parts[3]
                and cardinality(v_cursor.claims) = 1
                and v_cursor.claims[1].from_offset = v_parts[4] and v_cursor.claims[1].to_offset = v_parts[5] then
                v_cursor.claims := '{}';
                return v_cursor;
            end if;
        end if;
    end if;
    v_open := mqpg._claim_of_receipt(_acked_cursor.receipt, may_be_done => true);
    v_cursor := v_open.last_version;
    if (v_open.subscription).subscription_id is distinct from v_id then
        raise exception using errcode = 'MQ001', message = 'ack must be a receipt of ' || case
            when v_id is null then 'this consumer, which has received nothing yet' -- _member() found none
            else format(
                'consumer group %L on topic %L%s', _acked_cursor.subscription.consumer_group,
                (select t.name from mqpg.topic t where t.topic_id = _acked_cursor.subscription.topic_id),
                ' for consumer ' || quote_literal(nullif(_acked_cursor.subscription.member, '')))
        end;
    end if;
    if (v_open.claim).epoch is null then
        return null;
    end if;
    v_cursor.epoch := (v_open.claim).epoch;
    v_cursor.claims := v_open.rest;
    return v_cursor;
end
$$;
