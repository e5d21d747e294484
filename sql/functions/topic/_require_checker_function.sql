-- Raises for a function that a caller may not name as checker, and returns the name of its owner. A
-- checker runs with the rights of its owner, never with those of the compensator, so it must be
-- SECURITY DEFINER. PostgreSQL refuses SET ROLE inside such a function. The caller must be a member
-- of the owner, so that nobody gets more rights by naming a function.
-- Locks: none. Cost: two lookups, one in a subtransaction.
create function mqpg._require_checker_function(target text) returns text
language plpgsql stable as $$
declare
    v_caller name := mqpg._caller();
    v_target regproc;
    v_function record;
begin
    begin
        v_target := to_regproc(_require_checker_function.target);
    exception when syntax_error or invalid_name or name_too_long or feature_not_supported or invalid_schema_name
        or insufficient_privilege then
        null;    -- a text that is no name of anything, such as one with too many dots
    end;
    if v_target is null then
        raise exception using errcode = 'MQ001', message = format(
            'checker_target %L names no function, or more than one', left(_require_checker_function.target, 130)),
            hint = 'Write the name with its schema.';
    end if;
    select p.oid::regprocedure::text as name, p.prosecdef, r.rolname into v_function
    from pg_catalog.pg_proc p
    join pg_catalog.pg_roles r on r.oid = p.proowner
    where p.oid = v_target;
    if not v_function.prosecdef then
        raise exception using errcode = 'MQ001', message = format(
            'checker_target %L must be SECURITY DEFINER, so that it runs with the rights of its owner',
            left(_require_checker_function.target, 130)),
            hint = format('alter function %s security definer;', v_function.name);
    end if;
    if not pg_has_role(v_caller, v_function.rolname, 'member') then
        raise exception using errcode = 'MQ001', message = format(
            'checker_target %L must belong to a role that %I is a member of, not to %I',
            left(_require_checker_function.target, 130), v_caller, v_function.rolname);
    end if;
    return v_function.rolname;
end
$$;
