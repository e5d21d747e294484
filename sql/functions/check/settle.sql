-- Decides a half message by hand, whether it is parked or not, and records the reason. No checker
-- is asked and no fence is set, so make sure first that the local transaction is over.
-- Arguments:
--   handle: the handle of the half message.
--   verdict: 'commit' or 'rollback'.
--   reason: why; trace() shows it, with the role that decided.
-- Returns: the outcome, which also says whether it was already decided.
-- Locks: the decision's key, the entry's row.
-- Cost: one decision, one insert.
-- Errors: MQ001 (null, or verdict 'wait').
create function mqpg.settle(handle text, verdict mqpg.verdict, reason text) returns mqpg.outcome
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_checked boolean := mqpg._require_privilege('operator');
    v_outcome mqpg.outcome;
    v_message_id bigint;
begin
    if settle.handle is null then
        raise exception using errcode = 'MQ001', message = 'handle must not be null';
    end if;
    if settle.verdict is null or settle.verdict = 'wait' then
        raise exception using errcode = 'MQ001', message = format(
            'verdict must be commit or rollback, not %s', coalesce(settle.verdict::text, 'null'));
    end if;
    if settle.reason is null then
        raise exception using errcode = 'MQ001', message = 'reason must not be null';
    end if;
    v_outcome := mqpg._decide(
        settle.handle, case settle.verdict when 'commit' then 'c' else 'b' end::"char", 'admin', settle.reason);
    if v_outcome = 'unknown' then
        return v_outcome;
    end if;
    select p.message_id into v_message_id from mqpg._parse_handle(settle.handle) p;
    if v_outcome in ('committed', 'rolled_back') then
        perform mqpg._log_check(v_message_id, 'settled', 'role ' || mqpg._caller(), settle.reason);
    end if;
    perform mqpg._forget_entry(v_message_id);
    return v_outcome;
end
$$;
