-- Whether a subscription is past an offset: no later receive() delivers it, and no consumer has it.
-- Locks: none. Cost: linear in the claims.
create function mqpg._is_passed(last_version mqpg.cursor, queue_offset bigint) returns boolean
language sql stable as $$
    select _is_passed.queue_offset < (_is_passed.last_version).committed
        or _is_passed.queue_offset < (_is_passed.last_version).claimed
        and (mqpg._claim_of((_is_passed.last_version).claims, _is_passed.queue_offset)).from_offset is null
$$;
