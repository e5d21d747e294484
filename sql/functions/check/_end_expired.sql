-- Ends an expired half message, in the caller's transaction, and returns the outcome. The ledger of
-- this database is fenced, because any local transaction may have called local_begin(), whatever
-- the group's checker: a local row there means commit, and a fence means rollback. Null means that
-- an open local transaction or an open decision stands in the way, the ledger has lost rows, or the
-- half message was decided meanwhile.
-- Locks: the ledger key and the decision's key, each waited for at most 50 ms.
-- Cost: a few lookups, an insert, a decision and its record.
create function mqpg._end_expired(handle text, producer_group text, reason text) returns mqpg.outcome
language plpgsql
set lock_timeout = '50ms' as $$
declare
    v_half record;
    v_verdict mqpg.verdict;
    v_outcome mqpg.outcome;
begin
    select h.* into v_half from mqpg._half_by_handle(_end_expired.handle) h;
    begin
        v_verdict := mqpg._fence(_end_expired.handle);
        if v_verdict = 'wait' or v_verdict is null then
            return null;
        end if;
        v_outcome := mqpg._decide(_end_expired.handle, case v_verdict when 'commit' then 'c' else 'b' end::"char",
            'expiry', _end_expired.reason);
    exception when lock_not_available then
        return null;    -- a decision is open; the fence was rolled back with this block
    end;
    perform mqpg._forget_entry(v_half.message_id);
    if v_outcome not in ('committed', 'rolled_back') then
        return null;
    end if;
    perform mqpg._log_check(v_half.message_id, 'expired', 'expiry', _end_expired.reason);
    insert into mqpg.expired_half (message_id, handle, producer_group, topic, prepared_at, outcome, reason)
    values (
        v_half.message_id, _end_expired.handle, nullif(_end_expired.producer_group, ''), v_half.topic, v_half.born_at,
        v_outcome, _end_expired.reason);
    return v_outcome;
end
$$;
