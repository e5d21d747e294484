-- Locks the queue of a receipt and finds its claim (I8). A receipt stays valid until another call
-- takes its range over, so an acknowledgement after the lease counts as long as the range is free.
-- The claim may have lost messages since; from_offset and to_offset are those of the receipt.
-- Arguments:
--   receipt: the text.
--   may_be_done: if all of the delivery was acknowledged or nacked, `claim` is null; default false:
--       that raises MQ008.
-- Locks: as _lock_cursor().
-- Cost: reads one cursor version, or two if part of the delivery was acknowledged or nacked.
-- Errors: MQ007 (malformed, changed, or of no subscription here), MQ008 (spent), MQ009 (stale),
-- 55P03.
create function mqpg._claim_of_receipt(
    receipt text, may_be_done boolean default false, out subscription mqpg.subscription,
    out last_version mqpg.cursor, out claim mqpg.claim,
    out rest mqpg.claim [], out from_offset bigint, out to_offset bigint
)
language plpgsql as $$
declare
    v_id int;
    v_receipt record;
    v_claim mqpg.claim;
    v_waited boolean;
begin
    -- Nothing that the receipt says is believed before its signature is verified.
    v_id := mqpg._receipt_subscription(_claim_of_receipt.receipt);
    select s.* into _claim_of_receipt.subscription from mqpg.subscription s where s.subscription_id = v_id;
    v_receipt := mqpg._parse_receipt(_claim_of_receipt.receipt, _claim_of_receipt.subscription.receipt_secrets);
    _claim_of_receipt.from_offset := v_receipt.from_offset;
    _claim_of_receipt.to_offset := v_receipt.to_offset;
    if not mqpg._may(_claim_of_receipt.subscription.receivers) and not mqpg._has_right('receive', v_id) then
        perform mqpg._refuse('may not acknowledge for the consumer group of this receipt',
            'grant_receive', '{"consumer_group": null, "topic": null}');
    end if;
    v_waited := mqpg._lock_cursor(v_id, v_receipt.queue_id);
    _claim_of_receipt.last_version := mqpg._cursor(v_id, v_receipt.queue_id);
    if _claim_of_receipt.last_version.version is null
        or v_receipt.epoch / 1048576 > _claim_of_receipt.last_version.version then
        perform mqpg._require_fresh(null);
        raise exception using errcode = 'MQ007', message = format(
            'receipt %L was not issued here', _claim_of_receipt.receipt);
    end if;
    _claim_of_receipt.rest := '{}';
    foreach v_claim in array _claim_of_receipt.last_version.claims loop
        if v_claim.epoch = v_receipt.epoch and v_claim.from_offset >= v_receipt.from_offset
            and v_claim.to_offset <= v_receipt.to_offset then
            _claim_of_receipt.claim := v_claim;
        else
            _claim_of_receipt.rest := _claim_of_receipt.rest || v_claim;
        end if;
    end loop;
    -- Other bounds mean that the claim is gone, has lost messages, or the receipt was changed.
    if (_claim_of_receipt.claim.from_offset = v_receipt.from_offset
        and _claim_of_receipt.claim.to_offset = v_receipt.to_offset) is not true then
        perform mqpg._require_issued_receipt(
            _claim_of_receipt.receipt, v_id, v_receipt.queue_id, v_receipt.epoch, v_receipt.from_offset,
            v_receipt.to_offset);
        if _claim_of_receipt.claim.epoch is null then
            perform mqpg._refuse_receipt(
                _claim_of_receipt.receipt, v_id, v_receipt.queue_id, v_receipt.epoch, _claim_of_receipt.may_be_done);
        end if;
    end if;
end
$$;
