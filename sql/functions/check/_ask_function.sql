-- Asks a group's SQL function f(handle text, key text, headers jsonb, payload json or jsonb)
-- returns mqpg.verdict. When the function fails, returns null or does not exist, verdict is null
-- and problem says why: a check without an answer. A lock time-out inside it means wait.
-- The session's statement_timeout ends a function that hangs. It works only once per statement, so
-- after timed_out the caller must not ask another function. A cancel request is raised again if it
-- comes in the first half of that time; later it cannot be distinguished from the time-out.
-- The function's name is data: it is looked up, never pasted into SQL.
-- Locks: the function's own, each waited for at most 1 s.
-- Cost: the function's.
create function mqpg._ask_function(
    target text, handle text, key text, headers jsonb, payload json,
    out verdict mqpg.verdict, out problem text, out timed_out boolean
)
language plpgsql
set lock_timeout = '1s' as $$
declare
    v_function regprocedure;
    v_limit interval;
begin
    timed_out := false;
    v_function := coalesce(
        to_regprocedure(_ask_function.target || '(text, text, jsonb, json)'),
        to_regprocedure(_ask_function.target || '(text, text, jsonb, jsonb)'));
    if not exists (
        select from pg_proc p
        where p.oid = v_function and p.prorettype = 'mqpg.verdict'::regtype and not p.proretset and p.prokind = 'f'
    ) then
        problem := format('%s(text, text, jsonb, json) returns mqpg.verdict does not exist', _ask_function.target);
        return;
    end if;
    execute format('select %s($1, $2, $3, $4::%s)', v_function::regproc, (
        select p.proargtypes[3]::regtype from pg_proc p where p.oid = v_function))
    into verdict
    using _ask_function.handle, _ask_function.key, _ask_function.headers, _ask_function.payload;
    if verdict is null then
        problem := format('%s answered null', _ask_function.target);
    end if;
exception
    when lock_not_available then
        verdict := 'wait';
        problem := null;
    when query_canceled then
        v_limit := nullif(current_setting('statement_timeout'), '0')::interval;
        -- Half of it, because the time-out counts from the parsing of the statement, a time not
        -- known here.
        if v_limit is null or clock_timestamp() < statement_timestamp() + v_limit / 2 then
            raise;
        end if;
        verdict := null;
        problem := format('%s was cut off: it did not answer in time', _ask_function.target);
        timed_out := true;
    when assert_failure then    -- not included in others
        verdict := null;
        problem := format('%s failed: %s (%s)', _ask_function.target, sqlerrm, sqlstate);
    when others then
        verdict := null;
        problem := format('%s failed: %s (%s)', _ask_function.target, sqlerrm, sqlstate);
end
$$;
comment on function mqpg._ask_function(text, text, text, jsonb, json) is
    'Internal: ask a group''s SQL function about a half message';
