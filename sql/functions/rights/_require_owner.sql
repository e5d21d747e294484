-- Raises for a caller that is neither the owner of the schema, nor a member of it, nor a superuser.
-- Locks: none. Cost: negligible.
create function mqpg._require_owner() returns void
language plpgsql stable as $$
begin
    if not mqpg._is_owner() then
        raise exception using errcode = 'MQ025',
            message = format('role %I may not do what only the owner of the schema may', mqpg._caller()),
            hint = 'Missing: membership in the owner.';
    end if;
end
$$;
