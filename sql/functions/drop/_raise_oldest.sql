-- Moves the oldest offset of a queue to the position of its slowest subscription, at most to
-- next_offset. Returns whether it moved.
-- Locks: the queue's row of queue_tail; the caller holds 1836150838.
-- Cost: each cursor of the queue once.
create function mqpg._raise_oldest(topic_id int, queue_id int, next_offset bigint) returns boolean
language plpgsql as $$
begin
    -- A statement of its own, so that it sees subscriptions that began before the lock was taken.
    insert into mqpg.queue_tail as q (topic_id, queue_id, subscription_id, oldest_offset)
    select _raise_oldest.topic_id, _raise_oldest.queue_id, 0, f.oldest_offset
    from (
        select least(_raise_oldest.next_offset, min(k.committed)) as oldest_offset
        from mqpg.subscription s
        cross join lateral mqpg._newest_cursor(s.subscription_id, _raise_oldest.queue_id) as k
        where s.topic_id = _raise_oldest.topic_id and (s.mode <> 'broadcast' or s.member <> '')
    ) as f
    where f.oldest_offset > mqpg._oldest(_raise_oldest.topic_id, _raise_oldest.queue_id, 0)
    on conflict on constraint queue_tail_pkey do update set oldest_offset = excluded.oldest_offset;
    return found;
end
$$;

-- Where readers of some queues pin an expired tick segment, other queues' messages in it may no
-- longer be needed. The oldest offset of each such queue moves to the position of its own slowest
-- subscription, at most to the end of the segment, so that older bodies can be dropped. A group
-- that does not read therefore pins only what it has not read.
-- Locks: 1836150838, tried only, because a caller that is about to begin at an oldest offset holds
-- it.
-- Cost: reads the segment's part of consume_queue, and each cursor of the topics in it once.
create function mqpg._raise_oldest(segment mqpg.segment)
returns table (action text, family text, segment_no bigint, detail text)
language plpgsql as $$
declare
    v_queue record;
    v_raised int := 0;
begin
    if not pg_try_advisory_xact_lock(1836150838, 0) then
        return;
    end if;
    for v_queue in
        select c.topic_id, c.queue_id, max(c.base_offset + c.n) as next_offset
        from mqpg.consume_queue c
        join mqpg.topic t on t.topic_id = c.topic_id
        where c.subscription_id = 0 and c.tick_id >= (_raise_oldest.segment).lower_bound::bigint
            and c.tick_id < (_raise_oldest.segment).upper_bound::bigint
        group by 1, 2
    loop
        if mqpg._raise_oldest(v_queue.topic_id, v_queue.queue_id, v_queue.next_offset) then
            v_raised := v_raised + 1;
        end if;
    end loop;
    if v_raised > 0 then
        perform mqpg._note_oldest_moved();
        return query select 'freed', 'tick', (_raise_oldest.segment).segment_no,
            format('the oldest offset of %s queues moved, because no group needs the messages before it', v_raised);
    end if;
end
$$;
