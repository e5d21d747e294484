-- Whether the caller may use what these roles may use: it has one of them. A role whose id bears
-- another name now does not count. _may() answers for most calls that write.
-- Locks: none. Cost: negligible.
create function mqpg._is_among(grantees mqpg.grantee []) returns boolean
language plpgsql stable as $$
declare
    v_grantee mqpg.grantee;
begin
    if mqpg._is_owner() then
        return true;
    end if;
    foreach v_grantee in array coalesce(_is_among.grantees, '{}') loop
        if pg_get_userbyid(v_grantee.role) = v_grantee.name and pg_has_role(mqpg._caller(), v_grantee.role, 'usage') then
            return true;
        end if;
    end loop;
    return false;
end
$$;
