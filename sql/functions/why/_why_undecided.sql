-- What an undecided half message waits for. The first row says how it stands with its check-back;
-- the others say what prevents the check or the decision.
-- Locks: none. Cost: a few index lookups; reads the server's list of locks.
create function mqpg._why_undecided(message_id bigint) returns table (cause text, detail jsonb, remedy text)
language plpgsql stable as $$
declare
    v_half record;
    v_group mqpg.producer_group;
    v_checks record;
    v_worker record;
    v_parked_at timestamptz;
    v_due timestamptz;
    v_ledger text;
    v_sessions jsonb [];
    v_problem text;
    v_asks text;
begin
    select h.* into v_half from mqpg._half_by_id(_why_undecided.message_id) h;
    select g.* into v_group from mqpg.producer_group g where g.producer_group_id = v_half.producer_group_id;
    select c.* into v_checks from mqpg._checks(_why_undecided.message_id) c;
    select q.vt into v_due from pgmq.q_mqpg_oplog q
    where (q.message ->> 'message_id')::bigint = _why_undecided.message_id;
    if v_due is null then
        select a.archived_at into v_parked_at from pgmq.a_mqpg_oplog a
        where (a.message ->> 'message_id')::bigint = _why_undecided.message_id;
    end if;
    v_due := coalesce(v_due, v_half.check_at);
    select l.entry into v_ledger from mqpg.ledger l
    where l.handle = mqpg._handle(v_half.incarnation, _why_undecided.message_id, v_half.nonce);
    v_asks := case v_group.checker
        when 'ledger' then 'the ledger in this database is asked'
        when 'function' then format('the function %s is asked', v_group.checker_target)
        when 'url' then format('the ledger %s is asked', v_group.checker_target)
        else 'the application asks for it by due_checks()'
    end;
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
    remedy := case cause
        when 'half_parked' then 'Nobody answered its checks. Decide it with settle(), or have it checked again '
            'with rearm(). The view half_parked has its handle.'
        when 'half_overdue' then case
            when v_group.checker = 'due_checks' and v_checks.checks = 0
                then format('Nobody has asked for it yet: start the program that calls due_checks(%L). Its producer '
                    'may also call commit() or rollback().', v_group.name)
            else format('It is to be checked now: %s. Its producer may also call commit() or rollback().', v_asks)
        end
        else format('Its producer has to call commit() or rollback(). If it does not, %s %s.', v_asks,
            mqpg._until(v_due))
    end;
    return next;
    if v_ledger is null and v_group.checker = 'ledger' then
        v_sessions := mqpg._table_sessions('mqpg.ledger', 'RowExclusiveLock');
    end if;
    if v_sessions <> '{}' then
        cause := 'local_transaction_open';
        detail := v_sessions[1] || jsonb_build_object('sessions', cardinality(v_sessions));
        remedy := case cardinality(v_sessions)
            when 1 then 'Its local transaction has to commit or roll back.'
            else format('One of %s open local transactions may be the one of this half message. They have to commit or '
                'roll back.', cardinality(v_sessions))
        end || ' If the oldest hangs: ' || mqpg._ending(v_sessions[1]);
        return next;
    end if;
    if v_group.checker = 'url' then
        select p.problem into v_problem from mqpg._ledger_problems() p where p.checker_target = v_group.checker_target;
        if v_problem is not null then
            cause := case
                when v_group.checker_target in (select s from mqpg._ledgers_served(array[v_group.checker_target]) s)
                    then 'ledger_unreachable'
                else 'ledger_not_served'
            end;
            detail := jsonb_build_object('ledger', v_group.checker_target, 'problem', v_problem);
            remedy := case cause
                when 'ledger_not_served' then format('Start a compensator that knows the ledger: mqpg worker '
                    '--ledger %s=URL.', v_group.checker_target)
                else 'Make the database of the ledger answer. The compensator then asks it again by itself.'
            end;
            return next;
        end if;
    end if;
    select w.* into v_worker from mqpg._newest_worker('compensator') w;
    if v_parked_at is null and v_due <= clock_timestamp() and v_group.checker <> 'due_checks' and v_problem is null
        and not v_worker.at_work then
        cause := 'compensator_not_running';
        detail := jsonb_strip_nulls(jsonb_build_object('seen_at', v_worker.seen_at, 'last_error', v_worker.last_error));
        remedy := 'Start a compensator (mqpg worker)' || case
            when v_group.checker = 'url' then '.'
            else ', or call compensate() yourself: select mqpg.compensate();'
        end;
        return next;
    end if;
end
$$;
