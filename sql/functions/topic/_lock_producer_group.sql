-- The producer group with that name, locked, so that no other transaction changes it until this one
-- ends.
-- Locks: its row, FOR NO KEY UPDATE, up to the setting lock_timeout.
-- Cost: one row.
create function mqpg._lock_producer_group(producer_group text) returns mqpg.producer_group
language plpgsql as $$
declare
    v_group mqpg.producer_group := mqpg._producer_group(_lock_producer_group.producer_group);
    v_timeout text;
begin
    v_timeout := mqpg._apply_lock_timeout();
    select g.* into v_group from mqpg.producer_group g
    where g.producer_group_id = v_group.producer_group_id
    for no key update;
    perform set_config('lock_timeout', v_timeout, true);
    if v_group.producer_group_id is null then
        raise exception using errcode = 'MQ004', message = format(
            'producer group %L was dropped meanwhile', _lock_producer_group.producer_group);
    end if;
    return v_group;
end
$$;
