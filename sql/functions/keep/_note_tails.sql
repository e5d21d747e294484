-- Notes the next offset of every queue that has rows in a tick segment, when the segment is closed
-- and before it is dropped.
-- Locks: the rows of queue_tail.
-- Cost: reads the segment's part of consume_queue once.
create function mqpg._note_tails(from_tick bigint, to_tick bigint) returns void
language sql as $$
    insert into mqpg.queue_tail as q (topic_id, queue_id, subscription_id, next_offset)
    select c.topic_id, c.queue_id, c.subscription_id, max(c.base_offset + c.n)
    from mqpg.consume_queue c
    join mqpg.topic t on t.topic_id = c.topic_id
    where c.tick_id >= _note_tails.from_tick and c.tick_id < _note_tails.to_tick
    group by 1, 2, 3
    on conflict (topic_id, queue_id, subscription_id) do update
    set next_offset = greatest(q.next_offset, excluded.next_offset);
    delete from mqpg.queue_tail q where not exists (select from mqpg.topic t where t.topic_id = q.topic_id);
$$;
comment on function mqpg._note_tails(bigint, bigint) is 'Internal: note the next offsets of a segment''s queues';
