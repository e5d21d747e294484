-- Makes the commit of this transaction wait for the disk even if the session chose not to. A
-- prepare, a decision or a run of the appender that is lost after it was answered breaks the
-- protocol.
-- Locks: none. Cost: one setting, only if it differs.
create function mqpg._force_sync() returns void
language plpgsql as $$
begin
    if current_setting('synchronous_commit') in ('off', 'local') then
        perform set_config('synchronous_commit', 'on', true);
    end if;
end
$$;
