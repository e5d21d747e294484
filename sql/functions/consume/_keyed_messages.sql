-- _claimed_messages() of a topic's own queue, with the key of each message.
-- Locks: none. Cost: one look at each run, and one at each message's record batch.
create function mqpg._keyed_messages(topic_id int, queue_id int, claim mqpg.claim)
returns table (queue_offset bigint, message_id bigint, deliver_id bigint, attempt int, key text)
language sql stable as $$
    select m.queue_offset, m.message_id, m.deliver_id, m.attempt, k.key
    from mqpg._claimed_messages(
        _keyed_messages.topic_id, _keyed_messages.queue_id, 0, _keyed_messages.claim) as m
    left join lateral (
        select l.keys[m.deliver_id % 1024 + 1] as key
        from mqpg.commit_log l where l.batch_id = m.deliver_id / 1024
        union all
        select h.key from mqpg.held h where h.message_id = m.deliver_id
        limit 1
    ) as k on true
    order by m.queue_offset
$$;
