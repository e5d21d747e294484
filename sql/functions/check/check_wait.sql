-- Answers a check with "not yet": the half is handed out again after retry_after (null: the group's check_after,
-- doubled with each ask). Within the lease of due_checks() the ask then does not count; later it only puts the next
-- one off. For a half that was decided meanwhile it does nothing.
-- Locks: the entry's row. Cost: a few lookups, one update, one insert. Errors: MQ001, MQ006, MQ018 (not handed out,
-- or parked).
create function mqpg.check_wait(handle text, retry_after interval default null) returns void
language plpgsql as $$
declare
    v_half record;
    v_entry record;
begin
    select h.* into v_half from mqpg._require_half(check_wait.handle) h;
    if check_wait.retry_after is not null then
        perform mqpg._require_interval('retry_after', check_wait.retry_after, '0');
    end if;
    if v_half.decided then
        perform mqpg._forget_entry(v_half.message_id);
        return;
    end if;
    select e.* into v_entry from mqpg._entry(v_half.message_id) e;
    if not found then
        raise exception using errcode = 'MQ018',
            message = format('half message %s is not handed out by due_checks()', v_half.message_id),
            hint = 'A parked half is checked again after rearm().';
    end if;
    perform mqpg._defer_check(v_half.message_id, v_half.producer_group_id, v_entry.msg_id, check_wait.retry_after,
        v_entry.vt > clock_timestamp(), 'due_checks', null);
end
$$;
comment on function mqpg.check_wait(text, interval) is 'Answer a check-back with "not yet"';
