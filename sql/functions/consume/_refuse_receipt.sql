-- Raises the error for a receipt whose claim no longer exists. The cursor's history says whether
-- the claim was taken over (MQ009) or acknowledged, nacked or returned (MQ008). If that history is
-- dropped, the receipt counts as spent.
-- With may_be_done there is no error if all of the delivery was acknowledged or nacked.
-- Locks: none. Cost: the cursor's versions since the claim; only on an error.
-- Errors: MQ008, MQ009.
create function mqpg._refuse_receipt(
    receipt text, subscription_id int, queue_id int, epoch bigint, may_be_done boolean
) returns void
language plpgsql as $$
declare
    v_action "char";
begin
    select c.action into v_action from mqpg.cursor c
    where c.subscription_id = _refuse_receipt.subscription_id and c.queue_id = _refuse_receipt.queue_id
        and c.version > _refuse_receipt.epoch / 1048576
        and not exists (select from unnest(c.claims) k where k.epoch = _refuse_receipt.epoch)
    order by c.version limit 1;
    if v_action = any(mqpg._actions('take_over', 'dead_letter', 'unpin', 'moved', 'incarnation')) then
        raise exception using errcode = 'MQ009', message = format(
            'receipt %L is stale: its messages were taken over', _refuse_receipt.receipt);
    end if;
    if _refuse_receipt.may_be_done and mqpg._is_done(
        _refuse_receipt.subscription_id, _refuse_receipt.queue_id, _refuse_receipt.epoch, v_action)
    then
        return;
    end if;
    raise exception using errcode = 'MQ008', message = format(
        'receipt %L is spent: its messages are acknowledged, nacked or released', _refuse_receipt.receipt),
        hint = 'A receipt stands for the whole delivery. ack() takes through or offsets for a part of it.';
end
$$;
