-- Whether the caller is a superuser, the owner of the schema, or a member of the owner. It is
-- called where current_user is the owner.
-- Locks: none. Cost: negligible; the planner puts it in place of the call.
create function mqpg._is_owner() returns boolean
language sql volatile as $$
    select pg_has_role(mqpg._caller(), current_user, 'usage')
$$;
