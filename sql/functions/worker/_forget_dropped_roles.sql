-- Deletes the rights of roles that were dropped, and notes the holders of rights again. The keeper
-- calls it before each of its passes. It does nothing if another transaction has one of the rows
-- locked, and the next pass tries again. PostgreSQL gives ids of roles in ascending order, so no
-- new role bears the id of a dropped one meanwhile.
-- Locks: role_right against other grants, tried only; the rows that change, as _note_holders(), up
-- to the setting lock_timeout.
-- Cost: a look at role_right for each topic, subscription and producer group, and a subtransaction;
-- nothing while there are no rights.
create function mqpg._forget_dropped_roles() returns void
language plpgsql as $$
declare
    v_timeout text;
begin
    lock table mqpg.role_right in share row exclusive mode nowait;
    v_timeout := mqpg._apply_lock_timeout();
    delete from mqpg.role_right r where not exists (select from pg_roles p where p.oid = r.role::oid);
    if found or exists (select from mqpg.role_right) then
        perform mqpg._note_holders();
    end if;
    perform set_config('lock_timeout', v_timeout, true);
exception when lock_not_available then
    return;
end
$$;
