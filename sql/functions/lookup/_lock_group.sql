-- Waits for members that are joining a broadcast group, up to the setting lock_timeout (55P03), and lets nobody join
-- until the end of the transaction: what is done to all members next leaves none out. Nothing in other modes.
-- Locks: the group's row, FOR UPDATE (_member() takes KEY SHARE). Cost: one row.
create function mqpg._lock_group(consumer_group mqpg.subscription) returns void
language plpgsql as $$
declare
    v_timeout text;
begin
    if _lock_group.consumer_group.mode <> 'broadcast' or _lock_group.consumer_group.member <> '' then
        return;
    end if;
    v_timeout := mqpg._apply_lock_timeout();
    perform from mqpg.subscription s
    where s.subscription_id = _lock_group.consumer_group.subscription_id
    for update;
    perform set_config('lock_timeout', v_timeout, true);
end
$$;
comment on function mqpg._lock_group(mqpg.subscription) is 'Internal: let no member join a broadcast group meanwhile';
