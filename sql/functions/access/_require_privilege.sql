-- Raises for a caller that has none of these rights, else returns true. Functions call it as their first
-- declaration, `v_checked`, so that it comes before the declarations that look something up.
-- Locks: none. Cost: one look at role_right; negligible for the owner.
create function mqpg._require_privilege(variadic privileges text []) returns boolean
language plpgsql stable as $$
begin
    if not mqpg._has_privilege(variadic _require_privilege.privileges) then
        perform mqpg._refuse(
            format('does not have the right %s', array_to_string(_require_privilege.privileges, ' or ')),
            format('grant_%s', _require_privilege.privileges[1]),
            case _require_privilege.privileges[1] when 'produce' then '{"producer_group": null}' else '{}' end::jsonb);
    end if;
    return true;
end
$$;
