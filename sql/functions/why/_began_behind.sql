-- Whether a subscription began behind an offset and never got it. Where keep() has dropped the
-- first version of its cursor, that is no longer known, and the answer is false.
-- Locks: none. Cost: one index lookup; where it began there, that of _deliveries_of().
create function mqpg._began_behind(subscription_id int, queue_id int, queue_offset bigint) returns boolean
language sql stable as $$
    select c.action = mqpg._action('subscribe') and c.committed > _began_behind.queue_offset
        and not exists (
            select from mqpg._deliveries_of(
                _began_behind.subscription_id, _began_behind.queue_id, _began_behind.queue_offset))
    from mqpg.cursor c
    where c.subscription_id = _began_behind.subscription_id and c.queue_id = _began_behind.queue_id
    order by c.version limit 1
$$;
