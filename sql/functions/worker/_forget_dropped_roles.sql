-- Deletes the rights of roles that were dropped, and notes the holders of rights again. The keeper
-- calls it before each of its passes, and every grant and revoke does too. PostgreSQL gives ids of
-- roles in ascending order, so no new role bears the id of a dropped one meanwhile.
-- Locks: role_right against other grants.
-- Cost: a look at role_right for each topic, subscription and producer group; nothing where nobody
-- holds a right.
-- Errors: 55P03.
create function mqpg._forget_dropped_roles() returns void
language plpgsql as $$
begin
    lock table mqpg.role_right in share row exclusive mode;
    delete from mqpg.role_right r where not exists (select from pg_roles p where p.oid = r.role::oid);
    if found or exists (select from mqpg.role_right) then
        perform mqpg._note_holders();
    end if;
end
$$;
comment on function mqpg._forget_dropped_roles() is 'Internal: delete the rights of roles that were dropped';
