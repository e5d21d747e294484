-- Gives a role the right to audit: it reads the views, and those that the audit of the Spark
-- package reads. None of them shows a body, a key or headers. Only the owner of the schema, its
-- members and superusers may call it.
-- Arguments: as of grant_operator().
-- Locks, cost, errors: as of grant_operator().
create function mqpg.grant_auditor(role text) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    perform mqpg._require_owner();
    perform mqpg._grant(grant_auditor.role, 'auditor');
end
$$;
