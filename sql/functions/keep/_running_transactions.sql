-- The transactions of this database that are open now, but for the caller's. Prepared ones keep the id
-- under which they began, until the server is restarted: then it begins with -1.
-- Locks: none. Cost: reads the server's list of locks.
create function mqpg._running_transactions() returns setof text
language sql volatile as $$
    select l.virtualtransaction
    from pg_catalog.pg_locks l
    left join pg_catalog.pg_stat_activity a on a.pid = l.pid
    left join pg_catalog.pg_prepared_xacts p on p.transaction = l.transactionid
    where (l.locktype = 'virtualxid' and l.granted and l.pid <> pg_backend_pid()
            -- without a role: autovacuum
            and (a.pid is null or (a.datname = current_database() and a.usesysid is not null)))
        or (l.locktype = 'transactionid' and l.pid is null and p.database = current_database())
$$;
