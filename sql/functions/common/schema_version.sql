-- The version of the installed schema. A client compares it with its own when it connects, so the
-- signature of this function never changes.
-- Returns: one row with the number of the last migration; that of the last breaking one, which
-- clients that do not know it refuse; the release and the checksum of the functions and views.
-- Locks: none. Cost: reads two small tables.
-- Example: select * from mqpg.schema_version();
create function mqpg.schema_version()
returns table (migration int, breaking int, release text, checksum text)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
begin
    return query
    select left(a.version_num, 4)::int, i.breaking, i.release, i.checksum
    from mqpg.installation i cross join mqpg.alembic_version a
    where right(a.version_num, 5) = '_mqpg';
end
$$;
