-- The messages in the retry lane of a pinned subscription that may be for a consumer, in the order
-- of their offsets: those of the claims for which _is_claim_for() is true, and fresh ones from
-- `claimed` to `upto`. For each it says how often it was delivered from there, the number of its
-- next attempt, its queue, and the queue's owner.
-- Locks: none. Cost: one look at each run, record batch and queue of these messages.
create function mqpg._messages_of_lane(
    subscription mqpg.subscription, last_version mqpg.cursor, upto bigint, consumer text
) returns table (
    queue_offset bigint, message_id bigint, deliver_id bigint, deliveries int, attempt int, fresh boolean,
    queue_id int, owner text
)
language sql volatile as $$
    select m.queue_offset, m.message_id, m.deliver_id, c.deliveries, m.attempt + 1, c.fresh, q.queue_id, k.owner
    from (
        select u::mqpg.claim as claim, (u::mqpg.claim).attempt as deliveries, false as fresh
        from unnest(_messages_of_lane.last_version.claims) u
        where mqpg._is_claim_for(_messages_of_lane.subscription.subscription_id, u, _messages_of_lane.consumer)
        union all
        select row(null, _messages_of_lane.last_version.claimed, _messages_of_lane.upto, 0, null, null, null, null,
            null)::mqpg.claim, 0, true
        where _messages_of_lane.last_version.claimed < _messages_of_lane.upto
    ) as c
    cross join lateral mqpg._claimed_messages(
        _messages_of_lane.subscription.topic_id, -1, _messages_of_lane.subscription.subscription_id, c.claim) as m
    left join lateral (
        select l.queue_id::int from mqpg.commit_log l where l.batch_id = m.message_id / 1024
        union all
        select h.queue_id from mqpg.held h where h.message_id = m.message_id
        limit 1
    ) as q on true
    left join lateral (
        select v.owner from mqpg.cursor v
        where v.subscription_id = _messages_of_lane.subscription.subscription_id
            and v.queue_id = q.queue_id::smallint
        order by v.version desc limit 1
    ) as k on true
    order by m.queue_offset
$$;
