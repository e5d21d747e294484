-- The deliveries of one offset of a queue to one subscription, as far back as the cursor's history
-- goes. failed_at and reason are set if it was nacked and retried at its place (block_key,
-- block_queue).
-- Locks: none. Cost: for each era a few lookups, and the cursor versions from the first delivery to
-- the end of the last.
create function mqpg._deliveries_of(subscription_id int, queue_id int, queue_offset bigint) returns table (
    at timestamptz, attempt int, consumer text, lease_until timestamptz, failed_at timestamptz, reason text
)
language sql stable as $$
    with version as materialized (
        select c.*
        from mqpg._cursor_eras(_deliveries_of.subscription_id, _deliveries_of.queue_id) e
        join mqpg.cursor c on c.subscription_id = _deliveries_of.subscription_id
            and c.queue_id = _deliveries_of.queue_id
            and c.version >= mqpg._cursor_from(
                _deliveries_of.subscription_id, _deliveries_of.queue_id, _deliveries_of.queue_offset, false,
                e.from_version, e.to_version)
            and c.version <= coalesce(mqpg._cursor_from(
                _deliveries_of.subscription_id, _deliveries_of.queue_id, _deliveries_of.queue_offset, true,
                e.from_version, e.to_version), e.to_version)
        where c.action = any(mqpg._actions('receive', 'ack_and_receive', 'take_over', 'nack'))
    )
    select c.at, k.attempt, k.consumer, k.lease_until, f.at, f.reason
    from version c
    cross join lateral unnest(c.claims) as k
    left join version f on f.epoch = c.epoch and f.action = mqpg._action('nack')
        and _deliveries_of.queue_offset = any(f.failed)
    where c.action = any(mqpg._actions('receive', 'ack_and_receive', 'take_over')) and k.epoch = c.epoch
        and _deliveries_of.queue_offset >= k.from_offset and _deliveries_of.queue_offset < k.to_offset
        and (k.settled is null or _deliveries_of.queue_offset <> all(k.settled))
        and (k.picked is null or _deliveries_of.queue_offset = any(k.picked))
    order by c.version
$$;
