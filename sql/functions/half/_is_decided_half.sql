-- Whether a half message is committed or rolled back.
-- Locks: none. Cost: one index lookup.
create function mqpg._is_decided_half(message_id bigint) returns boolean
language sql stable as $$
    select exists (select from mqpg.op_log o where o.message_id = _is_decided_half.message_id and o.stage = 0)
$$;
