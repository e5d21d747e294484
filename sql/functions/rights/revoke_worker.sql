-- Takes the right of grant_worker() back. Only the owner of the schema, its members and superusers
-- may call it.
-- Arguments: as of grant_worker().
-- Returns: whether the role had this right.
-- Locks, cost, errors: as of grant_operator().
create function mqpg.revoke_worker(role text) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    perform mqpg._require_owner();
    return mqpg._revoke(revoke_worker.role, 'worker');
end
$$;
