-- Checks one overdue half message whose checker is in this database, and acts on the answer, all in
-- the caller's transaction, so that the fence and the decision are committed or rolled back
-- together. A check without an answer counts; its reason is recorded, and the next check comes
-- after the back-off. `asked` says whether there was something to ask, timed_out that the caller's
-- statement has used up its statement_timeout.
-- A local transaction or a decision that is still open means wait; then the fence is rolled back,
-- too. A function that knows nothing about an expired half message was asked for the last time: the
-- half message ends after a fence, or is parked if the fence belongs into another database. A ledger
-- that has lost rows parks it.
-- Locks: the caller holds the entry's row; those of the fence or of the function; the decision's
-- key, waited for at most 50 ms.
-- Cost: a few lookups, an insert and a decision.
create function mqpg._check_back(
    producer_group mqpg.producer_group, msg_id bigint, handle text, out asked boolean, out timed_out boolean
)
language plpgsql
set lock_timeout = '50ms' as $$
declare
    v_half record;
    v_checks record;
    v_verdict mqpg.verdict;
    v_problem text;
    v_expire_after interval := _check_back.producer_group.expire_after;
    v_by text := _check_back.producer_group.checker;
begin
    asked := false;
    timed_out := false;
    select h.* into v_half from mqpg._half_by_handle(_check_back.handle) h;
    if mqpg._needs_no_check(_check_back.producer_group, v_half.message_id, _check_back.msg_id) then
        return;
    end if;
    asked := true;
    select c.* into v_checks from mqpg._check_count(v_half.message_id) c;
    if v_checks.checks >= _check_back.producer_group.max_checks then
        perform mqpg._end_exhausted(
            _check_back.handle, v_half.message_id, _check_back.producer_group, _check_back.msg_id, v_checks.checks);
        return;
    end if;
    if _check_back.producer_group.checker = 'function' then
        v_by := 'function ' || _check_back.producer_group.checker_target;
        select a.verdict, a.problem, a.timed_out into v_verdict, v_problem, timed_out
        from mqpg._ask_function(_check_back.producer_group.checker_target, _check_back.handle, v_half.key,
            v_half.headers, v_half.payload, _check_back.producer_group.checker_owner) a;
    end if;
    begin
        if _check_back.producer_group.checker = 'ledger' then
            v_verdict := mqpg._fence(_check_back.handle);
        end if;
        perform mqpg._log_check(v_half.message_id, 'asked', v_by, coalesce(v_problem, v_verdict::text));
        if v_verdict <> 'wait' then
            perform mqpg._decide(
                _check_back.handle, case v_verdict when 'commit' then 'c' else 'b' end::"char", 'checker', v_by);
            delete from pgmq.q_mqpg_oplog q where q.msg_id = _check_back.msg_id;
        end if;
    exception when lock_not_available then
        v_verdict := 'wait';
        perform mqpg._log_check(v_half.message_id, 'asked', v_by, v_verdict::text);
    end;
    if v_verdict is null and v_by = 'ledger' then
        perform mqpg._park(v_half.message_id, _check_back.msg_id, v_by, mqpg._lost_rows());
        return;
    end if;
    if v_by <> 'ledger' and (v_verdict = 'wait' or v_verdict is null) and exists (
        select from pgmq.q_mqpg_oplog q
        where q.msg_id = _check_back.msg_id and q.enqueued_at <= clock_timestamp() - v_expire_after
    ) and mqpg._end_or_park(_check_back.handle, _check_back.producer_group.name, _check_back.msg_id,
        concat_ws('; ', format('undecided for longer than %s', v_expire_after), v_problem)) is not null then
        return;
    end if;
    if v_verdict = 'wait' then
        perform mqpg._defer_check(
            v_half.message_id, v_half.producer_group_id, _check_back.msg_id, null, true, v_by, null);
    elsif v_verdict is null then
        update pgmq.q_mqpg_oplog q
        set vt = clock_timestamp() + mqpg._back_off(v_half.producer_group_id, v_checks.asked + 1)
        where q.msg_id = _check_back.msg_id;
    end if;
end
$$;
