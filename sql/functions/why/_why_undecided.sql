-- What an undecided half message waits for. The first row says how it stands with its check-back;
-- the others say what prevents the check or the decision.
-- Locks: none. Cost: a few index lookups; reads the server's list of locks.
create function mqpg._why_undecided(message_id bigint) returns table (cause text, detail jsonb, remedy jsonb)
language plpgsql stable as $$
declare
    v_half record;
    v_group mqpg.producer_group;
    v_checks record;
    v_worker record;
    v_parked_at timestamptz;
    v_due timestamptz;
    v_handle text;
    v_ledger text;
    v_sessions jsonb [];
    v_problem text;
    v_served boolean;
begin
    select h.* into v_half from mqpg._half_by_id(_why_undecided.message_id) h;
    select g.* into v_group from mqpg.producer_group g where g.producer_group_id = v_half.producer_group_id;
    select c.* into v_checks from mqpg._check_count(_why_undecided.message_id) c;
    select q.vt into v_due from pgmq.q_mqpg_oplog q
    where (q.message ->> 'message_id')::bigint = _why_undecided.message_id;
    if v_due is null then
        select a.archived_at into v_parked_at from pgmq.a_mqpg_oplog a
        where (a.message ->> 'message_id')::bigint = _why_undecided.message_id;
    end if;
    v_due := coalesce(v_due, v_half.check_at);
    v_handle := mqpg._handle(v_half.incarnation, _why_undecided.message_id, v_half.nonce);
    select l.entry into v_ledger from mqpg.ledger l where l.handle = v_handle;
    detail := jsonb_strip_nulls(jsonb_build_object('producer_group', v_group.name, 'prepared_at', v_half.born_at,
        'check_at', case when v_parked_at is null then v_due end, 'parked_at', v_parked_at, 'checks', v_checks.checks,
        'checker', v_group.checker, 'checker_target', v_group.checker_target,
        'local_transaction', case v_ledger when 'local' then 'committed' when 'fence' then 'fenced' end,
        'reason', mqpg._last_reason(_why_undecided.message_id)));
    cause := case
        when v_parked_at is not null then 'half_parked'
        when v_due <= clock_timestamp() then 'half_overdue'
        else 'half_undecided'
    end;
    -- The view half_parked has the handle for the same readers.
    if v_parked_at is not null and mqpg._has_privilege('operator', 'auditor') then
        remedy := mqpg._remedy('rearm', jsonb_build_object('handle', v_handle));
    end if;
    return next;
    remedy := null;
    if v_ledger is null and v_group.checker = 'ledger' then
        v_sessions := mqpg._table_sessions('mqpg.ledger', 'RowExclusiveLock');
    end if;
    if v_sessions <> '{}' then
        cause := 'local_transaction_open';
        detail := v_sessions[1] || jsonb_build_object('sessions', cardinality(v_sessions));
        return next;
    end if;
    if v_group.checker = 'url' then
        select p.problem, p.served into v_problem, v_served
        from mqpg._ledger_problem(v_group.name, v_group.checker_target, mqpg._ledger_of(v_half.nonce)) p;
        if v_problem is not null then
            cause := case when v_served then 'ledger_unreachable' else 'ledger_not_served' end;
            detail := jsonb_build_object('ledger', v_group.checker_target, 'problem', v_problem);
            return next;
        end if;
    end if;
    select w.* into v_worker from mqpg._newest_worker('compensator') w;
    if v_parked_at is null and v_due <= clock_timestamp() and v_group.checker <> 'due_checks' and v_problem is null
        and not v_worker.at_work then
        cause := 'compensator_not_running';
        detail := jsonb_strip_nulls(jsonb_build_object('seen_at', v_worker.seen_at, 'last_error', v_worker.last_error));
        if v_group.checker <> 'url' then
            remedy := mqpg._remedy('compensate', '{}');
        end if;
        return next;
    end if;
end
$$;
