-- Whether the caller has a right of _roles_with_right(). _may() answers for most calls; this is asked if the
-- roles noted in the row do not have it. Without an id only those have the right who have it for
-- all topics or groups.
-- Locks: none. Cost: one look at role_right.
create function mqpg._has_right(privilege text, object_id int) returns boolean
language plpgsql stable as $$
begin
    return mqpg._is_owner() or exists (
        select from mqpg._roles_with_right(_has_right.privilege, coalesce(_has_right.object_id, 0)) as h(role)
        where pg_has_role(mqpg._caller(), h.role, 'usage'));
end
$$;
