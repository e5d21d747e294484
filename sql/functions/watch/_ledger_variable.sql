-- The variable with the URL of a ledger in another database, in the environment of a compensator.
-- Locks: none. Cost: negligible.
create function mqpg._ledger_variable(checker_target text) returns text
language sql immutable as $$
    select 'MQPG_LEDGER_' || upper(regexp_replace(_ledger_variable.checker_target, '[-.]', '_', 'g'))
$$;
