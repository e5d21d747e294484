-- What the producer groups with one kind of checker name as its target, and which groups these are.
-- Locks: none. Cost: one row for each group.
create function mqpg._checker_targets(checker text) returns table (checker_target text, producer_groups text [])
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
begin
    perform mqpg._require_privilege('worker');
    return query
    select g.checker_target, array_agg(g.name order by g.name)
    from mqpg.producer_group g
    where g.checker = _checker_targets.checker
    group by g.checker_target;
end
$$;
