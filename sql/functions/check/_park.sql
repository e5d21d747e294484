-- Moves an undecided half message out of the check queue, so that an administrator can look at it:
-- view half_parked, rearm(), settle().
-- Locks: the caller holds the entry's row.
-- Cost: an insert, and the move to the archive.
create function mqpg._park(message_id bigint, msg_id bigint, by text, reason text) returns void
language plpgsql set standard_conforming_strings = on as $$
begin
    perform mqpg._log_check(_park.message_id, 'parked', _park.by, _park.reason);
    perform pgmq.archive('mqpg_oplog', _park.msg_id);
end
$$;
