-- Releases the oldest expired tick segment, so that its tables are dropped: consume_queue first,
-- then tick and half_tick. The segment stays while a subscription still needs an offset in it.
-- Segments go in order only, because a queue's oldest offset is that of its oldest row, and from
-- there on every message must exist.
-- The oldest offsets of its queues move to the end of the segment in the same transaction. As a
-- consequence, nobody can begin in the segment between this transaction and the drop.
-- Locks: 1836150838 against those who begin at an oldest offset, tried only; the queues' rows in
-- queue_tail.
-- Cost: reads the segment's part of consume_queue once, and two lookups for each queue of each
-- subscription.
create function mqpg._release_ticks(segment mqpg.segment)
returns table (action text, family text, segment_no bigint, detail text)
language plpgsql as $$
declare
    v_segment mqpg.segment := _release_ticks.segment;
    v_from bigint := v_segment.lower_bound;
    v_to bigint := v_segment.upper_bound;
    v_pins text;
    v_ends record;
begin
    select string_agg(format('%s has %s %s at %s of %s',
        u.consumer_group || coalesce(' / ' || nullif(u.member, ''), ''),
        u.topic, case when u.queue_id = -1 then 'retries' else 'queue ' || u.queue_id end, u.committed,
        u.next_offset), '; ')
    into v_pins from (select p.* from mqpg._undelivered(v_from, v_to) p limit 5) u;
    if v_pins is not null then
        return query select 'pinned', 'tick', v_segment.segment_no, v_pins;
        return;
    end if;
    select array_agg(e.topic_id) as topics, array_agg(e.queue_id) as queues,
        array_agg(e.subscription_id) as subscription_ids, array_agg(e.next_offset) as offsets
    into v_ends
    from (
        select c.topic_id, c.queue_id, c.subscription_id, max(c.base_offset + c.n) as next_offset
        from mqpg.consume_queue c
        join mqpg.topic t on t.topic_id = c.topic_id
        where c.tick_id >= v_from and c.tick_id < v_to
        group by 1, 2, 3
        order by 1, 2, 3
    ) as e;
    -- Under the lock a new statement looks again: nobody begins at an older offset after it.
    if not pg_try_advisory_xact_lock(1836150838, 0) or exists (select from mqpg._undelivered(v_from, v_to)) then
        return query select 'blocked', 'tick', v_segment.segment_no,
            'a subscription is about to begin at an oldest offset; the next keep() tries again';
        return;
    end if;
    insert into mqpg.queue_tail as q (topic_id, queue_id, subscription_id, next_offset, oldest_offset)
    select e.topic_id, e.queue_id, e.subscription_id, e.next_offset, e.next_offset
    from unnest(v_ends.topics, v_ends.queues, v_ends.subscription_ids, v_ends.offsets)
        as e(topic_id, queue_id, subscription_id, next_offset)
    on conflict (topic_id, queue_id, subscription_id) do update
    set oldest_offset = greatest(q.oldest_offset, excluded.oldest_offset);
    perform mqpg._note_oldest_moved();
    perform mqpg._release_table('tick', v_segment.segment_no, 'consume_queue');
    return query select 'released', 'tick', v_segment.segment_no,
        mqpg._partition_name('consume_queue', v_segment.segment_no);
end
$$;
