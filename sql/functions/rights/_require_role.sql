-- The id of the role that a grant names, exactly as it is written, whatever letters it has.
-- Locks: none. Cost: one lookup in the catalog.
create function mqpg._require_role(role text) returns oid
language plpgsql stable as $$
declare
    v_role oid := (select r.oid from pg_roles r where r.rolname = _require_role.role);
begin
    if v_role is null then
        raise exception using errcode = 'MQ001',
            message = case when _require_role.role is null then 'role must not be null'
                else format('role %L does not exist', _require_role.role) end;
    end if;
    return v_role;
end
$$;
