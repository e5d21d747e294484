-- Gives a role the right to run the processes of `mqpg worker`: append(), compensate(), keep() and
-- what they call, and the views. Only the owner of the schema, its members and superusers may call
-- it.
-- Arguments: as of grant_operator().
-- Locks, cost, errors: as of grant_operator().
create function mqpg.grant_worker(role text) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    perform mqpg._require_owner();
    perform mqpg._grant(grant_worker.role, 'worker');
end
$$;
