-- Answers a check with "not known yet". Within the lease of due_checks() the check then does not
-- count. Later it only postpones the next one. For a half message that was decided meanwhile it
-- does nothing.
-- Arguments:
--   handle: the handle that due_checks() returned.
--   retry_after: how long until it is handed out again; null (default): the group's check_after,
--       doubled with each check.
-- Locks: the entry's row.
-- Cost: a few lookups, one update, one insert.
-- Errors: MQ001 (argument), MQ006 (unknown handle), MQ018 (not handed out, or parked).
create function mqpg.check_wait(handle text, retry_after interval default null) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_half record;
    v_entry record;
begin
    select h.* into v_half from mqpg._half_by_handle(check_wait.handle) h where h.known;
    if not mqpg._has_privilege('worker') then
        perform mqpg._require_half_of(v_half.producer_group_id);
    end if;
    select h.* into v_half from mqpg._require_half(check_wait.handle) h;
    if check_wait.retry_after is not null then
        perform mqpg._require_interval('retry_after', check_wait.retry_after, '0');
    end if;
    if v_half.decided then
        perform mqpg._forget_entry(v_half.message_id);
        return;
    end if;
    select q.msg_id, q.vt into v_entry from pgmq.q_mqpg_oplog q
    where (q.message ->> 'message_id')::bigint = v_half.message_id
    for update;     -- so that answers to one check come one after the other
    if not found then
        raise exception using errcode = 'MQ018',
            message = format('half message %s was not handed out by due_checks()', v_half.message_id),
            detail = mqpg._remedy('rearm', jsonb_build_object('handle', check_wait.handle))::text,
            hint = 'If it is parked, rearm() has it checked again.';
    end if;
    perform mqpg._defer_check(v_half.message_id, v_half.producer_group_id, v_entry.msg_id, check_wait.retry_after,
        v_entry.vt > clock_timestamp(), 'due_checks', null);
end
$$;
