-- Whether the caller has one of these rights, whatever it is a right to.
-- Locks: none. Cost: one look at role_right.
create function mqpg._has_privilege(variadic privileges text []) returns boolean
language plpgsql stable as $$
begin
    -- A statement of its own, because the other one opens its table even for the owner.
    if mqpg._is_owner() then
        return true;
    end if;
    return exists (
        select from mqpg.role_right r
        where r.privilege = any(_has_privilege.privileges) and pg_has_role(mqpg._caller(), r.role, 'usage'));
end
$$;
