-- The ledgers of producer groups that give no verdict at this moment, and why, also while no half
-- message is overdue.
-- Locks: none. Cost: as _ledger_problems().
create function mqpg._silent_ledgers() returns table (checker_target text, producer_groups text [], problem text)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
begin
    perform mqpg._require_privilege('operator', 'auditor', 'worker');
    return query
    select p.checker_target, array_agg(g.name order by g.name), min(p.problem)
    from mqpg._ledger_problems() p
    inner join mqpg.producer_group g on g.checker = 'url' and p.checker_target = g.checker_target
    where p.problem is not null
    group by p.checker_target;
end
$$;
