-- Records the answer of a compensator outside the database about a half message that was handed out
-- to it. The verdicts commit (perhaps with the final payload) and rollback decide. The verdict wait
-- backs off, for retry_after if that is given, does not count as a check, and returns null. With
-- `park` the half message is parked instead: its ledger gives no verdict any more.
-- A decision that another transaction is making is not waited for and counts as wait. Otherwise one
-- forgotten transaction would hold up the checks of all groups.
-- Locks: the decision's key, waited for at most 50 ms; the entry's row.
-- Cost: one decision or one update.
create function mqpg._answer(
    handle text, verdict mqpg.verdict, by text, reason text, retry_after interval default null,
    payload text default null, park boolean default false
) returns mqpg.outcome
language plpgsql security definer set search_path = pg_catalog, pg_temp
set lock_timeout = '50ms' as $$
declare
    v_checked boolean := mqpg._require_privilege('worker');
    v_half record;
    v_entry record;
    v_outcome mqpg.outcome;
begin
    select h.* into v_half from mqpg._require_half(_answer.handle) h;
    if not exists (
        select from mqpg.producer_group g where g.producer_group_id = v_half.producer_group_id and g.checker = 'url'
    ) then
        perform mqpg._require_half_of(v_half.producer_group_id);
    end if;
    if _answer.verdict is null then
        raise exception using errcode = 'MQ001', message = 'verdict must not be null';
    end if;
    if _answer.verdict <> 'wait' then
        begin
            v_outcome := mqpg._decide(_answer.handle, case _answer.verdict when 'commit' then 'c' else 'b' end::"char",
                'checker', concat_ws(': ', _answer.by, _answer.reason), _answer.payload);
            perform mqpg._forget_entry(v_half.message_id);
            return v_outcome;
        exception when lock_not_available then
            null;    -- counts as wait
        end;
    elsif v_half.decided then
        perform mqpg._forget_entry(v_half.message_id);
        return null;
    end if;
    select q.msg_id, q.vt into v_entry from pgmq.q_mqpg_oplog q
    where (q.message ->> 'message_id')::bigint = v_half.message_id
    for update;     -- so that answers to one check come one after the other
    if found and _answer.park then
        perform mqpg._park(v_half.message_id, v_entry.msg_id, coalesce(_answer.by, 'checker'), _answer.reason);
    elsif found then
        perform mqpg._defer_check(v_half.message_id, v_half.producer_group_id, v_entry.msg_id, _answer.retry_after,
            v_entry.vt > clock_timestamp(), coalesce(_answer.by, 'checker'), _answer.reason);
    end if;
    return null;
exception when lock_not_available then
    return null;    -- the transaction that decides removes the entry, too
end
$$;
