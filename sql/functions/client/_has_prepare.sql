-- Whether the PREPARE of a half message of this broker has an offset in its queue that is not below
-- from_offset. False also if that is no longer known: it was dropped, or restored (see adopt()).
-- Locks: none. Cost: the messages that its tick gave to the queue.
create function mqpg._has_prepare(topic_id int, handle text, from_offset bigint) returns boolean
language sql stable as $$
    select exists (
        select from mqpg._message(mqpg._message_of_handle(_has_prepare.handle)) h
        join mqpg.consume_queue q on q.tick_id = mqpg._tick_of_transaction(h.xid) and q.topic_id = h.topic_id
            and q.queue_id = h.queue_id and q.subscription_id = 0
        cross join lateral mqpg._claimed_messages(q.topic_id, q.queue_id, 0,
            row(null, q.base_offset, q.base_offset + q.n, 1, null, null, null, null, null)) c
        cross join lateral mqpg._message(c.deliver_id) m
        where h.topic_id = _has_prepare.topic_id and c.queue_offset >= _has_prepare.from_offset
            and m.headers ->> 'mqpg-handle' = _has_prepare.handle and m.headers ->> 'mqpg-phase' = 'prepare')
$$;
