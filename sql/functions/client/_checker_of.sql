-- How the half messages of a producer group are checked; null if there is no such group.
-- Locks: none. Cost: negligible.
create function mqpg._checker_of(producer_group text) returns text
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
begin
    if not mqpg._has_privilege('operator') then
        perform mqpg._require_producer_group(_checker_of.producer_group);
    end if;
    return (select g.checker from mqpg.producer_group g where g.name = _checker_of.producer_group);
exception when sqlstate 'MQ004' then
    return null;    -- prepare() reports an unknown group
end
$$;
