-- The session that holds an advisory lock of mqpg exclusively; null if none does.
-- Locks: none. Cost: reads the server's list of locks once.
create function mqpg._lock_session(lock_class int, lock_key bigint) returns jsonb
language sql stable as $$
    select mqpg._session(k.pid, k.virtualtransaction)
    from pg_locks k
    where k.locktype = 'advisory' and k.granted and k.objsubid = 2 and k.mode = 'ExclusiveLock'
        and k.classid::bigint = _lock_session.lock_class and k.objid::bigint = _lock_session.lock_key
        and k.pid is distinct from pg_backend_pid()
        and k.database = (select d.oid from pg_database d where d.datname = current_database())
    limit 1
$$;
