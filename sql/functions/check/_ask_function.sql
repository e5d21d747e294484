-- Asks a group's SQL function f(handle text, key text, headers jsonb, payload json or jsonb) returns
-- mqpg.verdict. Where it fails, answers null or is not such a function, verdict is null and problem says why: a
-- check without a result. A lock time-out inside it is a wait. One that hangs is ended by the session's
-- statement_timeout, which strikes once a statement: after it (timed_out) the caller must ask no other. A cancel
-- request is passed on (in the first half of that time; later it is taken for the time-out). The name is data: it
-- is looked up, never pasted.
-- Locks: the function's, each waited for at most 1 s. Cost: the function's.
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
        -- Half of it, as the time-out runs from the statement's parsing on, which is not known here.
        if v_limit is null or clock_timestamp() < statement_timestamp() + v_limit / 2 then
            raise;
        end if;
        verdict := null;
        problem := format('%s was cut off: it did not answer in time', _ask_function.target);
        timed_out := true;
    when assert_failure then    -- others leaves it out
        verdict := null;
        problem := format('%s failed: %s (%s)', _ask_function.target, sqlerrm, sqlstate);
    when others then
        verdict := null;
        problem := format('%s failed: %s (%s)', _ask_function.target, sqlerrm, sqlstate);
end
$$;
comment on function mqpg._ask_function(text, text, text, jsonb, json) is 'Internal: ask a group''s SQL function';
