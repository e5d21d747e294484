-- Whether a subscription got an offset of a queue after a time.
-- Locks: none. Cost: that of _deliveries_of().
create function mqpg._delivered_since(subscription_id int, queue_id int, queue_offset bigint, since timestamptz)
returns boolean
language sql stable as $$
    select exists (
        select from mqpg._deliveries_of(
            _delivered_since.subscription_id, _delivered_since.queue_id, _delivered_since.queue_offset) d
        where d.at > _delivered_since.since)
$$;
