-- The newest note that a subscription was moved over an offset on purpose; null if there is none.
-- Locks: none. Cost: one index lookup.
create function mqpg._skipped(subscription_id int, queue_id int, queue_offset bigint) returns mqpg.position_jump
language sql stable as $$
    select j.* from mqpg.position_jump j
    where j.subscription_id = _skipped.subscription_id and j.queue_id = _skipped.queue_id and not j.back
        and j.to_offset > _skipped.queue_offset and j.from_offset <= _skipped.queue_offset
    order by j.at desc limit 1
$$;
