-- Takes the right of grant_operator() back. Only the owner of the schema, its members and
-- superusers may.
-- Arguments:
--   role: name of the role, exactly as it is written. Its members have the right too, unless they
--       are NOINHERIT.
-- Returns: whether the role had this right; false also when the call is repeated.
-- Locks: role_right against other grants, waited for up to the setting lock_timeout; the rows that
-- note the right; those of REVOKE.
-- Cost: a few rows, and one command for each privilege that changes.
-- Errors: MQ001 (null, unknown role), MQ015 (not READ COMMITTED), MQ025 (the caller is not the
-- owner), 55P03.
create function mqpg.revoke_operator(role text) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_may boolean := mqpg._require_owner();
begin
    return mqpg._revoke(revoke_operator.role, 'operator');
end
$$;
