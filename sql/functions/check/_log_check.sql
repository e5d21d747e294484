-- Records one event of a half message's check-back: asked, waited, waited late, parked, rearmed,
-- settled or expired.
-- Locks: the new row. Cost: one insert.
create function mqpg._log_check(message_id bigint, event text, by text, reason text default null) returns void
language sql as $$
    insert into mqpg.check_log (message_id, at, event, by, reason)
    values (_log_check.message_id, clock_timestamp(), _log_check.event, _log_check.by, _log_check.reason)
$$;
