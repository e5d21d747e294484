-- The producer groups and their settings, for `mqpg group list`.
-- Locks: none. Cost: one row for each group.
create function mqpg._producer_groups() returns table (
    producer_group text, check_after text, max_checks int, on_exhausted text, checker text, checker_target text,
    expire_after text, max_undecided int
)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
begin
    perform mqpg._require_privilege('operator', 'auditor');
    return query
    select g.name, g.check_after::text, g.max_checks, g.on_exhausted, g.checker, g.checker_target,
        coalesce(g.expire_after::text, 'never'), g.max_undecided
    from mqpg.producer_group g order by g.name;
end
$$;
