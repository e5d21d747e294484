-- Since when the disk of this database is full, and the sessions of the workers that have noticed. They
-- hold a lock whose number is that time, because a row cannot be written then. Null: none has yet.
-- Returns: no row while the disk has room.
-- Locks: none. Cost: that of _disk_is_full(); if it is, also reads the server's list of locks.
create function mqpg._full_disk() returns table (since timestamptz, noticed_by int [])
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    perform mqpg._require_privilege('operator', 'auditor', 'worker');
    if mqpg._disk_is_full() then
        return query
        select min(to_timestamp(k.objid::bigint)), array_agg(k.pid)
        from pg_locks k
        where k.locktype = 'advisory' and k.classid = 1836150848 and k.objsubid = 2 and k.granted
            and k.database = (select d.oid from pg_database d where d.datname = current_database());
    end if;
end
$$;
