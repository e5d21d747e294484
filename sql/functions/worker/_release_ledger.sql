-- Gives back the session lock of a ledger in another database.
-- Locks: see _claim_ledgers(). Cost: negligible.
create function mqpg._release_ledger(checker_target text) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    perform mqpg._require_privilege('worker');
    return pg_advisory_unlock(1836150846, mqpg._ledger_lock(_release_ledger.checker_target));
end
$$;
