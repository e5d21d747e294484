-- The newest retry of a message for a subscription, with its offset in the retry lane; offset null:
-- not appended yet, or no longer stored; purged: never to be appended. No row where it was never
-- retried.
-- Locks: none. Cost: a few index lookups.
create function mqpg._retry_of(subscription mqpg.subscription, message_id bigint) returns table (
    written_at timestamptz, visible_at timestamptz, attempt int, reason text, purged boolean, tick_id bigint,
    queue_offset bigint
)
language sql stable as $$
    select d.written_at, d.visible_at, d.attempt::int, d.reason,
        d.written_at < (_retry_of.subscription).retries_from and o.queue_offset is null, k.tick_id, o.queue_offset
    from (
        select r.* from mqpg.delayed r
        where r.first_id between _retry_of.message_id - 1023 and _retry_of.message_id
            and r.first_id + r.n > _retry_of.message_id
            and r.subscription_id = (_retry_of.subscription).subscription_id
        order by r.written_at desc, r.xid desc, r.attempt desc limit 1
    ) as d
    cross join lateral (select mqpg._tick_of_transaction(d.xid, d.visible_at)) as k(tick_id)
    cross join lateral (select mqpg._offset_in_tick(
        k.tick_id, d.topic_id, -1, d.subscription_id, _retry_of.message_id)) as o(queue_offset)
$$;
