-- Applies the group's policy to a half message that was checked max_checks times without an answer:
-- park it, or roll it back. A rollback needs a fence. In this database any transaction may have
-- called local_begin(), whatever the group's checker, so a fence is set here and its answer counts,
-- even if it is commit. A ledger in another database cannot be fenced from SQL, so such a half
-- message is parked. So is one whose function cannot be asked any more, for instance because its owner
-- was renamed: it knows nothing of the half message only because nobody asks it.
-- Locks: the caller holds the entry's row; the ledger key and the decision's key, each waited for
-- at most 50 ms.
-- Cost: one decision, or one move to the archive.
create function mqpg._end_exhausted(
    handle text, message_id bigint, producer_group mqpg.producer_group, msg_id bigint, checks int
) returns void
language plpgsql
set lock_timeout = '50ms' as $$
declare
    v_verdict mqpg.verdict;
    v_elsewhere boolean := _end_exhausted.producer_group.checker = 'url' or exists (
        select from mqpg._half_by_id(_end_exhausted.message_id) h where mqpg._ledger_of(h.nonce) is not null);
    v_reason text := format('no verdict after %s check%s', _end_exhausted.checks,
        case _end_exhausted.checks when 1 then '' else 's' end);
    v_obstacle text;    -- why the function cannot be asked
    v_last text := (
        select c.reason from mqpg.check_log c
        where c.message_id = _end_exhausted.message_id and c.event = 'asked' and c.reason <> 'wait'
        order by c.at desc limit 1);
begin
    if _end_exhausted.producer_group.checker = 'function' then
        begin
            v_obstacle := mqpg._checker_problem(
                mqpg._checker_signature(_end_exhausted.producer_group.checker_target),
                _end_exhausted.producer_group.checker_target, _end_exhausted.producer_group.checker_owner);
        exception when others then
            v_obstacle := sqlerrm;    -- the text names nothing
        end;
    end if;
    if _end_exhausted.producer_group.on_exhausted = 'park' or v_elsewhere or v_obstacle is not null then
        if _end_exhausted.producer_group.on_exhausted <> 'park' and v_elsewhere then
            v_reason := v_reason || '; a rollback would need a fence in the other database';
        end if;
        perform mqpg._park(_end_exhausted.message_id, _end_exhausted.msg_id, _end_exhausted.producer_group.checker,
            concat_ws('; the last one: ', v_reason, v_last));
        return;
    end if;
    begin
        v_verdict := mqpg._fence(_end_exhausted.handle);
        if v_verdict is null then
            perform mqpg._park(_end_exhausted.message_id, _end_exhausted.msg_id, _end_exhausted.producer_group.checker,
                concat_ws('; ', v_reason, mqpg._lost_rows()));
            return;
        end if;
        if v_verdict <> 'wait' then
            perform mqpg._decide(
                _end_exhausted.handle, case v_verdict when 'commit' then 'c' else 'b' end::"char", 'checker', v_reason);
            delete from pgmq.q_mqpg_oplog q where q.msg_id = _end_exhausted.msg_id;
            return;
        end if;
    exception when lock_not_available then
        null;    -- another transaction is deciding; the fence was rolled back with this block
    end;
    perform mqpg._defer_check(_end_exhausted.message_id, _end_exhausted.producer_group.producer_group_id,
        _end_exhausted.msg_id, null,
        false, 'ledger', 'the local transaction or a decision is open');
end
$$;
