-- The roles that hold a right, in the form in which a row notes them.
-- Locks: none. Cost: one look at role_right.
create function mqpg._grantees(privilege text, object_id int) returns mqpg.grantee []
language sql stable as $$
    select coalesce(array_agg((h.role, pg_get_userbyid(h.role))::mqpg.grantee order by h.role), '{}')
    from mqpg._roles_with_right(_grantees.privilege, _grantees.object_id) as h(role)
$$;
