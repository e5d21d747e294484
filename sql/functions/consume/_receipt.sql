-- The receipt of a delivery, signed with the newest key.
-- It is plpgsql, not sql, so that its plan is kept.
-- Locks: none. Cost: one row and one hash.
create function mqpg._receipt(
    subscription_id int, queue_id int, epoch bigint, from_offset bigint, to_offset bigint
) returns text
language plpgsql stable as $$
declare
    v_parts text := _receipt.subscription_id::text || '.' || _receipt.queue_id::text || '.' || _receipt.epoch::text
        || '.' || _receipt.from_offset::text || '.' || _receipt.to_offset::text;
begin
    return v_parts || '.' || (
        select mqpg._receipt_mac(k.secret, v_parts) from mqpg.receipt_key k order by k.receipt_key_id desc limit 1);
end
$$;
comment on function mqpg._receipt(int, int, bigint, bigint, bigint) is 'Internal: the receipt of a delivery';
