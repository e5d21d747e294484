-- Who holds a lock of some mode on a table or one of its partitions, the oldest transaction first,
-- at most ten of them, without the caller.
-- Locks: none. Cost: reads the server's list of locks.
create function mqpg._table_sessions(relation regclass, mode text) returns jsonb []
language sql stable as $$
    select coalesce(array_agg(mqpg._session(s.pid, s.virtualtransaction) order by s.age desc nulls last, s.pid), '{}')
    from (
        select distinct k.pid, k.virtualtransaction, (
            select max(age(x.transactionid)) from pg_locks x
            where x.virtualtransaction = k.virtualtransaction and x.locktype = 'transactionid' and x.granted) as age
        from pg_locks k
        where k.locktype = 'relation' and k.granted and k.mode = _table_sessions.mode
            and k.pid is distinct from pg_backend_pid()
            and k.relation in (
                select _table_sessions.relation::oid
                union all
                select i.inhrelid from pg_inherits i where i.inhparent = _table_sessions.relation)
            and k.database = (select d.oid from pg_database d where d.datname = current_database())
        order by 3 desc nulls last, 1
        limit 10
    ) as s
$$;
