-- What the caller may see of the session that a cause names by its `pid`: for how long its
-- transaction is open, its role, application, address and state. It runs as its caller, because the
-- owner of the schema may see more, or less.
-- Locks: none. Cost: reads the server's list of sessions where a session is named.
create function mqpg._session_facts(detail jsonb) returns jsonb
language sql stable set search_path = pg_catalog, pg_temp as $$
    select coalesce((
        select jsonb_strip_nulls(jsonb_build_object(
            'seconds', round(extract(epoch from clock_timestamp() - a.xact_start)::numeric, 1),
            'role', a.usename, 'application', nullif(a.application_name, ''), 'client', host(a.client_addr),
            'state', a.state))
        from pg_catalog.pg_stat_activity a where a.pid = (_session_facts.detail ->> 'pid')::int), '{}')
$$;
