-- What keeps a half message of a group with checker `url` waiting at this moment, null if nothing
-- does, and whether a compensator serves its ledger. `ledger` is the identity that it carries, or
-- null. Compensators report with each heartbeat at which places they serve ledgers, and whether they
-- also answer for half messages without identity.
-- Locks: none. Cost: one look at all locks of the server, and the rows of the compensators.
create function mqpg._ledger_problem(producer_group text, checker_target text, ledger text)
    returns table (problem text, served boolean)
language sql stable as $$
    with report as materialized (
        select r.value as ledger, w.seen_at
        from mqpg.worker w
        cross join lateral jsonb_each(w.detail -> 'ledgers') as r
        where w.role = 'compensator' and w.state <> 'stopped'
            and w.seen_at > clock_timestamp() - interval '30 seconds' and r.key = _ledger_problem.checker_target
    ),
    place as materialized (
        select p.value ->> 'problem' as problem
        from report r
        cross join lateral jsonb_each(r.ledger -> 'places') as p
        where mqpg._is_ledger_at(_ledger_problem.producer_group, _ledger_problem.ledger, p.key)
    )
    select case
        when _ledger_problem.ledger is null or not exists (select from report) then coalesce(
            (select p.problem from mqpg._ledger_problems() p where p.checker_target = _ledger_problem.checker_target),
            (
                select format('it carries no ledger, and the compensator serves several as %s: its producer decides '
                    'it, or settle()', _ledger_problem.checker_target)
                where _ledger_problem.ledger is null
                    and exists (select from report r where r.ledger ->> 'unmarked' = 'false')
                    and not exists (select from report r where r.ledger ->> 'unmarked' = 'true')))
        when not exists (select from place) then format(
            'no compensator serves %s of producer group %s: start "mqpg worker" with --ledger %s=URL of that database',
            mqpg._ledger_name(_ledger_problem.producer_group, _ledger_problem.ledger), _ledger_problem.producer_group,
            _ledger_problem.checker_target)
        when not exists (select from place p where p.problem is null) then format(
            'no verdict from %s: %s', mqpg._ledger_name(_ledger_problem.producer_group, _ledger_problem.ledger),
            (select min(p.problem) from place p))
        end,
        (_ledger_problem.ledger is null or not exists (select from report) or exists (select from place))
            and exists (select from mqpg._ledgers_served(array[_ledger_problem.checker_target]))
$$;
