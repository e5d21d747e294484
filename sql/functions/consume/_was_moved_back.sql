-- Whether a seek() moved a position back, and nothing was received or acknowledged since.
-- Locks: none. Cost: an index lookup, or two.
create function mqpg._was_moved_back(cursor mqpg.cursor) returns boolean
language sql stable as $$
    select exists (
        select from (
            select c.action, c.claimed from mqpg.cursor c
            where c.subscription_id = (_was_moved_back.cursor).subscription_id
                and c.queue_id = (_was_moved_back.cursor).queue_id
                and c.action not in (mqpg._action('closed'), mqpg._action('carried'))
            order by c.version desc limit 1
        ) as last
        join mqpg.position_jump j on j.subscription_id = (_was_moved_back.cursor).subscription_id
            and j.queue_id = (_was_moved_back.cursor).queue_id and j.back and j.from_offset = last.claimed
        where last.action = mqpg._action('moved'))
$$;
