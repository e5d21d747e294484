-- Takes the session locks of these ledgers in other databases, as far as no other session has them,
-- and returns whose it got.
-- Locks: 1836150846 and the ledger, until _release_ledger() or the end of the session; tried only.
-- Cost: negligible.
create function mqpg._claim_ledgers(checker_targets text []) returns setof text
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    perform mqpg._require_privilege('worker');
    return query
    select t.checker_target
    from unnest(_claim_ledgers.checker_targets) as t (checker_target)
    where pg_try_advisory_lock(1836150846, mqpg._ledger_lock(t.checker_target));
end
$$;
