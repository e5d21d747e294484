-- Calls a checker function. It belongs to the role mqpg_asker, which has no rights, because a
-- function that is not SECURITY DEFINER runs as the owner of its caller.
-- Locks: the function's own. Cost: the function's.
create function mqpg._call_checker(
    function regprocedure, handle text, key text, headers jsonb, payload json, out verdict mqpg.verdict
)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    execute (
        select format('select %s($1, $2, $3, $4::%s)', p.oid::regproc, p.proargtypes[3]::regtype)
        from pg_proc p where p.oid = _call_checker.function)
    into verdict
    using _call_checker.handle, _call_checker.key, _call_checker.headers, _call_checker.payload;
end
$$;
