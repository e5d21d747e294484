-- The receipt of a delivery, signed with a secret of its subscription.
-- It is plpgsql, because the parts are needed twice and a function in sql would not be put in place
-- of the call.
-- Locks: none. Cost: one hash.
create function mqpg._receipt(
    secret bytea, subscription_id int, queue_id int, epoch bigint, from_offset bigint, to_offset bigint
) returns text
language plpgsql immutable as $$
declare
    v_parts text := concat_ws(
        '.', _receipt.subscription_id, _receipt.queue_id, _receipt.epoch, _receipt.from_offset, _receipt.to_offset);
begin
    return v_parts || '.' || mqpg._receipt_mac(_receipt.secret, v_parts);
end
$$;
