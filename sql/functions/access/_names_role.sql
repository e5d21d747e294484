-- Whether an element of senders, readers, receivers or producers is a role that the caller has. An
-- id that bears another name now does not count.
-- Locks: none. Cost: negligible; the planner puts it in place of the call.
create function mqpg._names_role(grantee mqpg.grantee) returns boolean
language sql volatile as $$
    select coalesce(pg_get_userbyid((_names_role.grantee).role) = (_names_role.grantee).name
        and pg_has_role(mqpg._caller(), (_names_role.grantee).role, 'usage'), false)
$$;
