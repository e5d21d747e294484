-- Notes where a subscription begins in its queues, from the first versions of its cursors.
-- Locks: the new rows. Cost: one index lookup and one row for each queue.
create function mqpg._note_starts(subscription_id int, from_queue int, to_queue int) returns void
language sql as $$
    insert into mqpg.queue_start (subscription_id, queue_id, start_offset)
    select _note_starts.subscription_id, q.queue_id, (mqpg._cursor(_note_starts.subscription_id, q.queue_id)).committed
    from generate_series(_note_starts.from_queue, _note_starts.to_queue) as q(queue_id)
    on conflict do nothing
$$;
