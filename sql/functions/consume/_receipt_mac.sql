-- What a receipt ends with: 128 bits of SHA-256 over a secret and the other parts. Without the
-- secret nobody can compute it, not even from other receipts. The digest is cut to half of its
-- length, so that it cannot be continued for a longer text.
-- Locks: none. Cost: one hash (inlined).
create function mqpg._receipt_mac(secret bytea, parts text) returns text
language sql stable as $$
    select left(encode(sha256(_receipt_mac.secret || convert_to(_receipt_mac.parts, 'UTF8')), 'hex'), 32)
$$;
