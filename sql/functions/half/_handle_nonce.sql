-- The nonce in the handle of a half message, as 16 bytes: half of SHA-256 over the secret of its
-- record batch and its message id. All half messages of a batch share the secret, but without it
-- nobody can compute one handle from another. The digest is cut, so that it cannot be continued for
-- a longer text.
-- Locks: none. Cost: one hash (inlined).
create function mqpg._handle_nonce(secret uuid, message_id bigint) returns bytea
language sql immutable as $$
    select substr(sha256(uuid_send(_handle_nonce.secret) || int8send(_handle_nonce.message_id)), 1, 16)
$$;
