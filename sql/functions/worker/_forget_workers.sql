-- Deletes the processes that were not seen for a day.
-- Locks: their rows. Cost: one row deleted for each.
create function mqpg._forget_workers() returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp set timezone = 'UTC'
set lock_timeout = '1s' as $$
begin
    perform mqpg._require_privilege('worker');
    delete from mqpg.worker w where w.seen_at < clock_timestamp() - interval '1 day';
    if exists (select from mqpg.role_right) then
        perform mqpg._forget_dropped_roles();
    end if;
end
$$;
