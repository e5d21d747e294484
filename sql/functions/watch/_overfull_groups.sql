-- Producer groups with more than max_undecided undecided half messages at the last count, about a
-- second ago. prepare() raises MQ026 for them.
-- Locks: none. Cost: one row for each group.
create function mqpg._overfull_groups() returns table (producer_group text, max_undecided int)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
begin
    perform mqpg._require_privilege('operator', 'auditor', 'worker');
    return query
    select g.name, g.max_undecided from mqpg.producer_group g where g.overfull_at is not null order by g.name;
end
$$;
