-- Why the SQL function of a producer group cannot be asked; null if it can. `signature` is null if there
-- is none of that name with the arguments of a checker.
-- Locks: none. Cost: a lookup.
create function mqpg._checker_problem(signature regprocedure, target text, owner text) returns text
language plpgsql volatile as $$
declare
    v_function record;
begin
    select p.prosecdef, r.rolname, pg_get_userbyid(c.proowner) as called_by into v_function
    from pg_catalog.pg_proc p
    left join pg_catalog.pg_roles r on r.oid = p.proowner
    join pg_catalog.pg_proc c on c.oid = 'mqpg._call_checker(regprocedure, text, text, jsonb, json)'::regprocedure
    where p.oid = _checker_problem.signature and p.prorettype = 'mqpg.verdict'::regtype and not p.proretset
        and p.prokind = 'f';
    return case
        when not found then
            format('%s(text, text, jsonb, json) returns mqpg.verdict does not exist', _checker_problem.target)
        when v_function.called_by <> 'mqpg_asker' then
            'no function is asked without the role mqpg_asker: an administrator makes it as docs/operations.md says'
        when not v_function.prosecdef then
            format('%s is not SECURITY DEFINER: alter function %s security definer', _checker_problem.target,
                _checker_problem.signature)
        when v_function.rolname is distinct from _checker_problem.owner then
            format('%s belongs to %s, not to %s as when it was named: call alter_producer_group()',
                _checker_problem.target, v_function.rolname, _checker_problem.owner)
    end;
end
$$;
