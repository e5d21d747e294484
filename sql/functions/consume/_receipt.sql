-- The receipt of a delivery: its parts, signed with a secret of its subscription.
-- Arguments: parts: subscription, queue, epoch, from_offset and to_offset, with dots between them.
-- Locks: none. Cost: one hash (inlined where `parts` is a variable).
create function mqpg._receipt(secret bytea, parts text) returns text
language sql stable as $$
    select _receipt.parts || '.' || mqpg._receipt_mac(_receipt.secret, _receipt.parts)
$$;
