-- Lets one run of `mqpg archive` write at a time, until the caller's transaction ends. It is no
-- advisory lock, because every role that can connect can take those. A caller that only waits in
-- READ COMMITTED afterwards has neither a transaction id nor a snapshot, so it holds back nothing.
-- Locks: SHARE UPDATE EXCLUSIVE on archived_segment, waited for at most a second, because
-- autovacuum takes the same one for a moment.
-- Cost: negligible.
create function mqpg._begin_archive() returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp set lock_timeout = '1s' as $$
begin
    perform mqpg._require_privilege('worker');
    lock table mqpg.archived_segment in share update exclusive mode;
exception when lock_not_available then
    raise exception using errcode = 'MQ018', message = 'another mqpg archive is running at this broker';
end
$$;
