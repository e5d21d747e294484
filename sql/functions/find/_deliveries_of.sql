-- The deliveries of one offset of a queue to one subscription, as far as the cursor's history goes back.
-- Locks: none. Cost: a few lookups, and the cursor versions from the first delivery to the end of the last.
create function mqpg._deliveries_of(subscription_id int, queue_id int, queue_offset bigint)
returns table (at timestamptz, attempt int, consumer text, lease_until timestamptz)
language sql stable as $$
    select c.at, k.attempt, k.consumer, k.lease_until
    from mqpg.cursor c
    cross join lateral unnest(c.claims) as k
    where c.subscription_id = _deliveries_of.subscription_id and c.queue_id = _deliveries_of.queue_id
        and c.version >= mqpg._cursor_from(
            _deliveries_of.subscription_id, _deliveries_of.queue_id, _deliveries_of.queue_offset, false)
        and c.version <= coalesce(mqpg._cursor_from(
            _deliveries_of.subscription_id, _deliveries_of.queue_id, _deliveries_of.queue_offset, true),
            9223372036854775807)
        and c.action in ('r', 't') and k.epoch = c.epoch
        and _deliveries_of.queue_offset >= k.from_offset and _deliveries_of.queue_offset < k.to_offset
        and not coalesce(_deliveries_of.queue_offset = any(k.settled), false)
    order by c.version
$$;
comment on function mqpg._deliveries_of(int, int, bigint) is 'Internal: deliveries of an offset to a subscription';
