-- The version of the installed schema, which a client compares with its own.
-- Locks: none. Cost: negligible.
create function mqpg._schema_version() returns text
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
begin
    return (select v.version_num from mqpg.alembic_version v);
end
$$;
comment on function mqpg._schema_version() is 'Internal: version of the installed schema';
