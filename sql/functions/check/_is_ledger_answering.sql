-- Whether a compensator serves a ledger in another database and has reported no problem with it.
-- Locks: none.
-- Cost: that of _ledger_problems().
create function mqpg._is_ledger_answering(checker_target text) returns boolean
language sql stable as $$
    select exists (
        select from mqpg._ledger_problems() p
        where p.checker_target = _is_ledger_answering.checker_target and p.problem is null)
$$;
comment on function mqpg._is_ledger_answering(text) is
    'Internal: whether a ledger in another database gives verdicts';
