-- Ledgers of overdue half messages of these producer groups that were not noted at `place`, and what
-- keeps them waiting: the ledgers of other nodes, or new identities of this one.
-- Locks: none. Cost: an index range of the overdue entries of each group, a lookup for each.
create function mqpg._unnoted_ledgers(producer_groups text [], place text)
returns table (producer_group text, ledger text, problem text, halves bigint)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
begin
    perform mqpg._require_privilege('worker');
    return query
    select s.group_name, s.ledger, p.problem, s.halves
    from (
        select g.name as group_name, g.checker_target, q.message ->> 'ledger' as ledger, count(*) as halves
        from mqpg.producer_group g
        join pgmq.q_mqpg_oplog q on q.message ->> 'producer_group' = g.name
        where g.name = any(_unnoted_ledgers.producer_groups) and q.vt <= clock_timestamp()
            and q.message ->> 'ledger' is not null
        group by 1, 2, 3
    ) as s
    cross join lateral mqpg._ledger_problem(s.group_name, s.checker_target, s.ledger) as p
    where not mqpg._is_ledger_at(s.group_name, s.ledger, _unnoted_ledgers.place);
end
$$;
