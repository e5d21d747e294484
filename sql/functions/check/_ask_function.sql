-- Asks a group's SQL function f(handle text, key text, headers jsonb, payload json or jsonb)
-- returns mqpg.verdict. When the function fails, returns null or does not exist, verdict is null
-- and problem says why: a check without an answer. A lock time-out inside it means wait.
-- The function must be SECURITY DEFINER and belong to `owner`, so that it runs with the rights of
-- the role that its group was created with. ALTER FUNCTION locks nothing, so this is looked up
-- before the call and again after it, and _call_checker() has no rights to lend. If the function
-- was changed, its answer does not count.
-- The function only reads, and the call is always rolled back. A deferred trigger or a cursor WITH
-- HOLD that it left behind would run at the commit, with the rights of the compensator; so would a
-- setting that it changed last. In a read-only transaction that has written, _caller() raises, too.
-- Prepared statements are not rolled back: if it replaced some, a later command of the compensator
-- would run them, so all are deallocated.
-- The session's statement_timeout ends a function that hangs. It works only once per statement, so
-- after timed_out the caller must not ask another function. A cancel request is raised again if it
-- comes in the first half of that time; later it cannot be distinguished from the time-out.
-- The function's name is data: it is looked up, never pasted into SQL.
-- Locks: the function's own, each waited for at most 1 s.
-- Cost: the function's, and two lookups.
create function mqpg._ask_function(
    target text, handle text, key text, headers jsonb, payload json, owner text,
    out verdict mqpg.verdict, out problem text, out timed_out boolean
)
language plpgsql
set lock_timeout = '1s' set client_min_messages = 'error' as $$
declare
    v_signature regprocedure;
    v_state text;
    v_statements text := mqpg._prepared_statements();
    v_answered boolean := false;
    v_limit interval;
begin
    timed_out := false;
    begin
        v_signature := mqpg._checker_signature(_ask_function.target);
        v_state := mqpg._function_state(v_signature);
        problem := mqpg._checker_problem(v_signature, _ask_function.target, _ask_function.owner);
        if problem is null then
            perform set_config('transaction_read_only', 'on', true);
            verdict := mqpg._call_checker(
                v_signature, _ask_function.handle, _ask_function.key, _ask_function.headers, _ask_function.payload);
        end if;
        if verdict is null and problem is null then
            problem := format('%s answered null', _ask_function.target);
        end if;
        v_answered := true;
        raise sqlstate 'MQ000';    -- rolls the call back; the variables keep the answer
    exception
        when lock_not_available then
            verdict := 'wait';
        when query_canceled then
            v_limit := nullif(current_setting('statement_timeout'), '0')::interval;
            -- Half of it, because the time-out counts from the parsing of the statement, a time not
            -- known here.
            if v_limit is null or clock_timestamp() < statement_timestamp() + v_limit / 2 then
                perform mqpg._forget_statements(v_statements);
                raise;
            end if;
            problem := format('%s was cut off: it did not answer in time', _ask_function.target);
            timed_out := true;
        when assert_failure then    -- not included in others
            problem := format('%s failed: %s (%s)', _ask_function.target, sqlerrm, sqlstate);
        when others then
            if not v_answered then
                problem := format('%s failed: %s (%s)', _ask_function.target, sqlerrm, sqlstate);
            end if;
    end;
    problem := case
        when mqpg._function_state(v_signature) is distinct from v_state then
            format('%s failed: it was changed while it ran', _ask_function.target)
        when mqpg._forget_statements(v_statements) then
            format('%s failed: it prepared or deallocated statements', _ask_function.target)
        else problem
    end;
    if problem is not null then
        verdict := null;
    end if;
end
$$;
