-- The messages of a claim: offset, id, where the body lies, and the number of this delivery's
-- attempt.
-- Locks: none. Cost: one look at each run.
create function mqpg._claimed_messages(topic_id int, queue_id int, subscription_id int, claim mqpg.claim)
returns table (queue_offset bigint, message_id bigint, deliver_id bigint, attempt int)
language sql stable as $$
    select c.base_offset + u.start + i, u.first_id + i, coalesce(u.deliver_id, u.first_id) + i,
        coalesce(u.attempt, 1) + _claimed_messages.claim.attempt - 1
    from mqpg.consume_queue c,
        unnest(c.first_ids, c.starts, c.deliver_ids, c.attempts)
            with ordinality as u(first_id, start, deliver_id, attempt, nth),
        -- only the places of the claim, because a row may have thousands
        generate_series(
            greatest(0, _claimed_messages.claim.from_offset - c.base_offset - u.start),
            least(coalesce(c.starts[u.nth + 1], c.n), _claimed_messages.claim.to_offset - c.base_offset) - u.start - 1
        ) as i
    where c.topic_id = _claimed_messages.topic_id and c.queue_id = _claimed_messages.queue_id
        and c.subscription_id = _claimed_messages.subscription_id
        and c.base_offset >= (
            select b.base_offset from mqpg.consume_queue b
            where b.topic_id = _claimed_messages.topic_id and b.queue_id = _claimed_messages.queue_id
                and b.subscription_id = _claimed_messages.subscription_id
                and b.base_offset <= _claimed_messages.claim.from_offset
            order by b.base_offset desc limit 1)
        and c.base_offset < _claimed_messages.claim.to_offset
        and (_claimed_messages.claim.settled is null
            or c.base_offset + u.start + i not in (select s from unnest(_claimed_messages.claim.settled) s))
        and (_claimed_messages.claim.picked is null
            or c.base_offset + u.start + i in (select p from unnest(_claimed_messages.claim.picked) p))
    order by 1
$$;
