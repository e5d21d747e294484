-- Makes this transaction's commit wait for the disk even where the session chose not to: a prepare, a
-- decision or a pass of the appender that is lost after it was answered breaks the protocol.
-- Locks: none. Cost: a setting, and only where it differs.
create function mqpg._force_sync() returns void
language plpgsql as $$
begin
    if current_setting('synchronous_commit') in ('off', 'local') then
        perform set_config('synchronous_commit', 'on', true);
    end if;
end
$$;
comment on function mqpg._force_sync() is 'Internal: make this transaction commit durably';
