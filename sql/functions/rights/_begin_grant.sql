-- What each grant and revoke does first: it lets one of them run at a time. A transaction with an
-- older snapshot could note a right that was revoked meanwhile, so it raises.
-- Locks: role_right against other grants, up to the setting lock_timeout.
-- Cost: negligible.
create function mqpg._begin_grant() returns void
language plpgsql as $$
declare
    v_timeout text;
begin
    if current_setting('transaction_isolation') <> 'read committed' then
        raise exception using errcode = 'MQ015', message = format(
            'rights are changed in a READ COMMITTED transaction, not %s',
            upper(current_setting('transaction_isolation')));
    end if;
    v_timeout := mqpg._apply_lock_timeout();
    lock table mqpg.role_right in share row exclusive mode;
    perform set_config('lock_timeout', v_timeout, true);
end
$$;
