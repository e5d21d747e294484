-- Deletes the processes that were not seen for a day.
-- Locks: their rows. Cost: one row deleted for each.
create function mqpg._forget_workers() returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    delete from mqpg.worker w where w.seen_at < clock_timestamp() - interval '1 day';
end
$$;
comment on function mqpg._forget_workers() is 'Internal: delete processes not seen for a day';
