-- Warns if no compensator answers for the ledger of a producer group at this moment, with the line
-- that changes that. It is no error, because the compensator may be started later; the half messages
-- wait until then, and half_pending says why.
-- Locks: none. Cost: one look at all locks of the server, and the rows of the compensators.
create function mqpg._warn_of_unserved_ledger(producer_group mqpg.producer_group) returns void
language plpgsql as $$
declare
    v_problem text := (
        select p.problem from mqpg._ledger_problems() p
        where _warn_of_unserved_ledger.producer_group.checker = 'url'
            and p.checker_target = _warn_of_unserved_ledger.producer_group.checker_target);
begin
    if v_problem is not null then
        raise warning 'producer group %: %', _warn_of_unserved_ledger.producer_group.name, v_problem
            using hint = 'Its undecided half messages wait until a compensator knows the ledger.';
    end if;
end
$$;
