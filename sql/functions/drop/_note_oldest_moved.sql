-- Notes that an oldest offset moved, in the row of queue_tail without a topic. A REPEATABLE READ
-- transaction that begins at an oldest offset looks for that in _lock_oldest().
-- Locks: the row; the caller holds 1836150838, so nobody else has it.
-- Cost: one row.
create function mqpg._note_oldest_moved() returns void
language sql as $$
    insert into mqpg.queue_tail as q (topic_id, queue_id, subscription_id, next_offset) values (0, 0, 0, 1)
    on conflict (topic_id, queue_id, subscription_id) do update set next_offset = q.next_offset + 1
$$;
