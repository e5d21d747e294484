-- Records one event of a half message's check-back: asked, waited, waited late, parked, rearmed,
-- settled or expired. Its time is later than those of the events before it, also if the clock has gone
-- back, because the checks since the last rearm() are counted by it.
-- Locks: the new row. Cost: one lookup and one insert.
create function mqpg._log_check(message_id bigint, event text, by text, reason text default null) returns void
language sql as $$
    insert into mqpg.check_log (message_id, at, event, by, reason)
    values (
        _log_check.message_id, greatest(clock_timestamp(), (
            select max(c.at) + interval '1 microsecond' from mqpg.check_log c
            where c.message_id = _log_check.message_id)),
        _log_check.event, _log_check.by, _log_check.reason)
$$;
