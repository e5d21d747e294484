-- Does what adopt() does if this server was promoted or recovered to a point in time, and nothing
-- otherwise. A failover manager or a worker may therefore call it at any time. A promotion is a new
-- timeline of the same cluster. A dump that was restored into another cluster is left to a person,
-- because its original may still be at work.
-- Returns: a text that says what was done; null if there was nothing to do.
-- Locks: the appender's. If there is something to do, those of adopt().
-- Cost: reads the control file. If there is something to do, that of adopt().
-- Errors: MQ015 (must be called in a READ COMMITTED transaction that has written nothing), 55P03.
create function mqpg.adopt_promoted() returns text
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    perform mqpg._require_privilege('worker', 'operator');
    perform mqpg._require_own_transaction('adopt_promoted');
    perform mqpg._apply_lock_timeout();
    -- Two callers at once raise the incarnation once.
    lock table mqpg.append_lock in exclusive mode;
    if exists (
        select from mqpg.broker b cross join pg_control_system() c
        where b.system_identifier = c.system_identifier
            and b.timeline <> left(pg_walfile_name(pg_current_wal_insert_lsn()), 8))
    then
        return mqpg._adopt(false);
    end if;
    return null;
end
$$;
