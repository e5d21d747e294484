-- Refuses a receipt that no delivery of its queue had, because it is another broker's, was changed,
-- or belongs to a transaction that rolled back. The cursor version that issued it shows this. If
-- that version was dropped, no receipt is refused. Nor is it where adopt() wrote a version of that
-- number, because the original may have given it to a delivery that the copy does not know.
-- Locks: none. Cost: one cursor version, only for a receipt whose claim has changed since.
-- Errors: MQ007.
create function mqpg._require_issued_receipt(
    receipt text, subscription_id int, queue_id int, epoch bigint, from_offset bigint, to_offset bigint
) returns void
language plpgsql as $$
begin
    if exists (
        select from mqpg.cursor c
        where c.subscription_id = _require_issued_receipt.subscription_id
            and c.queue_id = _require_issued_receipt.queue_id
            and c.version = _require_issued_receipt.epoch / 1048576 and c.action <> mqpg._action('incarnation')
            and not exists (
                select from unnest(c.claims) k
                where k.epoch = _require_issued_receipt.epoch and k.from_offset = _require_issued_receipt.from_offset
                    and k.to_offset = _require_issued_receipt.to_offset)
    ) then
        raise exception using errcode = 'MQ007', message = format(
            'receipt %L was not issued here, or by a transaction that rolled back', _require_issued_receipt.receipt);
    end if;
end
$$;
