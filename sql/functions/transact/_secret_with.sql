-- The secret of a batch of half messages that carries the identity of a ledger: version 8 of a UUID,
-- which begins with it. 90 random bits are left. Other secrets have version 4. Null if the identity is
-- malformed: rights come before arguments.
-- Locks: none. Cost: negligible.
create function mqpg._secret_with(ledger text) returns uuid
language sql volatile as $$
    select overlay(overlay(gen_random_uuid()::text placing '8' from 15) placing _secret_with.ledger from 1)::uuid
    where _secret_with.ledger ~ '^[0-9a-f]{8}$'
$$;
