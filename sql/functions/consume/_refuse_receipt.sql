-- Raises the error for a receipt whose claim no longer exists. The cursor's history says whether
-- the claim was taken over (MQ009) or acknowledged, nacked or returned (MQ008). If that history is
-- dropped, the receipt counts as spent.
-- With may_be_done there is no error if each message of the delivery was acknowledged or nacked. Not so
-- if it was released, or if a nack with on_failure block_key or block_queue gave messages back with the
-- one that failed.
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
    if _refuse_receipt.may_be_done and v_action = any(mqpg._actions('ack', 'nack', 'ack_and_receive')) and exists (
        select from mqpg.cursor i
        cross join lateral unnest(i.claims) j
        where i.subscription_id = _refuse_receipt.subscription_id and i.queue_id = _refuse_receipt.queue_id
            and i.version = _refuse_receipt.epoch / 1048576 and j.epoch = _refuse_receipt.epoch
            and not exists (
                select from mqpg.cursor c
                cross join lateral unnest(c.claims) k
                cross join lateral generate_series(
                    greatest(j.from_offset, k.from_offset), least(j.to_offset, k.to_offset) - 1) o
                where c.subscription_id = i.subscription_id and c.queue_id = i.queue_id and c.version > i.version
                    and c.epoch = j.epoch and c.failed is not null and k.epoch is distinct from j.epoch
                    and o <> all(coalesce(j.settled, '{}') || coalesce(k.settled, '{}'))
                    and o = any(coalesce(j.picked, array[o])) and o = any(coalesce(k.picked, array[o]))
                    and not exists (
                        select from mqpg.cursor f
                        where f.subscription_id = i.subscription_id and f.queue_id = i.queue_id
                            and f.version > i.version and f.epoch = j.epoch and o = any(f.failed)))) then
        return;
    end if;
    raise exception using errcode = 'MQ008', message = format(
        'receipt %L is spent: its messages are acknowledged, nacked or released', _refuse_receipt.receipt),
        hint = 'A receipt stands for the whole delivery. ack() takes through or offsets for a part of it.';
end
$$;
