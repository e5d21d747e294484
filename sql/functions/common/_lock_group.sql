-- Lets no member join a broadcast group until the end of the transaction, so that a change of all
-- members reaches each of them. Waits for members that are joining. Does nothing in other modes.
-- Locks: the group's row, FOR UPDATE (_member() takes KEY SHARE), up to the setting lock_timeout.
-- Cost: one row.
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
