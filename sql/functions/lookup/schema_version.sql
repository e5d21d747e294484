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
    select m.migration, m.breaking, i.release, i.checksum
    from mqpg.installation i, (
        select max(k.migration_no) as migration, coalesce(max(k.migration_no) filter (where k.breaking), 0) as breaking
        from mqpg.migration k
    ) m;
end
$$;
