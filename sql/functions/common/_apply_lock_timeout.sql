-- Lets the transaction wait for locks no longer than the setting lock_timeout. Returns the value
-- before, which the caller restores.
-- Locks: none. Cost: one index lookup in a tiny table.
create function mqpg._apply_lock_timeout() returns text
language plpgsql as $$
declare
    v_before text := current_setting('lock_timeout');
begin
    perform set_config('lock_timeout', mqpg._setting('lock_timeout'), true);
    return v_before;
end
$$;
