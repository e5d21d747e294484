-- The last reason that a check-back of a half message gave.
-- Locks: none. Cost: one index range of check_log.
create function mqpg._last_reason(message_id bigint) returns text
language sql stable as $$
    select c.reason from mqpg.check_log c
    where c.message_id = _last_reason.message_id and c.reason is not null
    order by c.at desc limit 1
$$;
