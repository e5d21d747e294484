-- Returns true, except in a security-restricted operation, where it raises the error of PostgreSQL.
-- There a command on somebody's table, such as ANALYZE, REFRESH MATERIALIZED VIEW or CREATE INDEX,
-- runs functions of the table's owner in the session of a superuser or of autovacuum, which mqpg
-- would take for the caller. UNLISTEN does nothing here, but it raises there.
-- Locks: none. Cost: negligible.
create function mqpg._is_direct() returns boolean
language plpgsql as $$
begin
    unlisten mqpg_none;
    return true;
end
$$;
