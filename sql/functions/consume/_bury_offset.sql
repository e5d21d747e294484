-- Makes the message at one offset of a topic's queue a dead letter, because it was delivered so often
-- that no attempt is left.
-- Locks: the new row and the subscription's, as _require_subscribed().
-- Cost: one row.
-- Errors: MQ005 (unsubscribed meanwhile), 55P03, 40001.
create function mqpg._bury_offset(subscription mqpg.subscription, queue_id int, queue_offset bigint, attempts int)
returns void
language sql as $$
    select mqpg._require_subscribed(_bury_offset.subscription);
    select mqpg._bury(
        (_bury_offset.subscription).subscription_id, array[m.message_id], array[m.deliver_id],
        array[_bury_offset.attempts], 'lease ran out at the last attempt', limited => true)
    from mqpg._claimed_messages(
        (_bury_offset.subscription).topic_id, _bury_offset.queue_id, 0,
        row(null, _bury_offset.queue_offset, _bury_offset.queue_offset + 1, 1, null, null, null, null, null)::mqpg.claim
    ) as m
$$;
