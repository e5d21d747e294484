-- Gives a role the right to audit: it reads the views, and those that the audit of the
-- Spark package reads. None of them shows a body, a key or headers.
-- Repeated it changes nothing. Only the owner of the schema, its members and superusers may.
-- Arguments:
--   role: name of the role, exactly as it is written. Its members have the right too, unless they
--       are NOINHERIT.
-- Locks: role_right against other grants, waited for up to the setting lock_timeout; the rows that
-- note the right; those of GRANT.
-- Cost: a few rows, and one command for each privilege that changes.
-- Errors: MQ001 (null, unknown role), MQ015 (not READ COMMITTED), MQ025 (the caller is not the
-- owner), 55P03.
create function mqpg.grant_auditor(role text) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_may boolean := mqpg._require_owner();
begin
    perform mqpg._grant(grant_auditor.role, 'auditor');
end
$$;
