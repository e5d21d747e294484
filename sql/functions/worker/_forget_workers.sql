-- Deletes the processes that were not seen for a day, and the rights of roles that were dropped, and notes
-- the holders of rights again. The keeper calls it before each of its passes. It leaves rights alone if
-- another transaction has one of the rows locked, and the next pass tries again. PostgreSQL gives ids of
-- roles in ascending order, so no new role bears the id of a dropped one meanwhile.
-- Locks: the processes' rows; role_right against other grants, tried only; the rows that change, as
-- _note_holders(), up to the setting lock_timeout.
-- Cost: one row deleted for each process. Nothing more while there are no rights; else a look at role_right
-- for each topic, subscription and producer group, and a subtransaction.
create function mqpg._forget_workers() returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp set timezone = 'UTC'
set lock_timeout = '1s' as $$
begin
    perform mqpg._require_privilege('worker');
    delete from mqpg.worker w where w.seen_at < clock_timestamp() - interval '1 day';
    if exists (select from mqpg.role_right) then
        begin
            lock table mqpg.role_right in share row exclusive mode nowait;
            perform mqpg._apply_lock_timeout();
            delete from mqpg.role_right r where not exists (select from pg_roles p where p.oid = r.role::oid);
            if found or exists (select from mqpg.role_right) then
                perform mqpg._note_holders();
            end if;
        exception when lock_not_available then
            null;
        end;
    end if;
end
$$;
