-- Which broker this is: its id, and how many lives it has had.
-- Locks: none. Cost: negligible.
create function mqpg._broker() returns table (broker_id text, incarnation int)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
begin
    return query
    select b.broker_id, b.incarnation from mqpg.broker b;
end
$$;
