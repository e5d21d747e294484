-- Whether the caller may use what these roles may use. _may() answers for most calls that write.
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
        if mqpg._names_role(v_grantee) then
            return true;
        end if;
    end loop;
    return false;
end
$$;
