-- Who holds a lock, as pg_locks names it: {"pid": …}, or {"prepared_transaction": …} for one that
-- is prepared for two-phase commit. The owner of the schema may not see when other roles' sessions
-- began; why() adds that with the rights of its caller.
-- A prepared transaction keeps the virtual id of the session that it had, until the server restarts.
-- Locks: none. Cost: reads the lists of locks and of prepared transactions where it is one.
create function mqpg._session(pid int, virtualtransaction text) returns jsonb
language sql stable as $$
    select case
        when _session.pid is not null then jsonb_build_object('pid', _session.pid)
        else jsonb_build_object('prepared_transaction', (
            select p.gid from pg_prepared_xacts p
            join pg_locks x on x.transactionid = p.transaction and x.locktype = 'transactionid' and x.pid is null
            where x.virtualtransaction = _session.virtualtransaction limit 1))
    end
$$;
