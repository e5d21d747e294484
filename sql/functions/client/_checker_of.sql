-- How the half messages of a producer group are checked; null where there is no such group.
-- Locks: none. Cost: negligible.
create function mqpg._checker_of(producer_group text) returns text
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
begin
    return (select g.checker from mqpg.producer_group g where g.name = _checker_of.producer_group);
end
$$;
comment on function mqpg._checker_of(text) is
    'Internal: how the half messages of a group are checked';
