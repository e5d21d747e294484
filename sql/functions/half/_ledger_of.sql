-- The identity of the ledger in another database that a half message was prepared for, which is the
-- first part of the secret of its batch; null if it carries none. See _secret_with().
-- Locks: none. Cost: negligible (inlined).
create function mqpg._ledger_of(secret uuid) returns text
language sql immutable as $$
    select case when substr(_ledger_of.secret::text, 15, 1) = '8' then left(_ledger_of.secret::text, 8) end
$$;
