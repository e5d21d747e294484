-- Whether the caller has one of many noted roles. _may() looks at the first two by itself.
-- Locks: none. Cost: negligible.
create function mqpg._is_among(grantees mqpg.grantee []) returns boolean
language plpgsql stable as $$
declare
    v_grantee mqpg.grantee;
begin
    foreach v_grantee in array _is_among.grantees loop
        if mqpg._names_role(v_grantee) then
            return true;
        end if;
    end loop;
    return false;
end
$$;
comment on function mqpg._is_among(mqpg.grantee []) is 'Internal: whether the caller has one of many noted roles';
