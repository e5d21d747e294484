-- The offset that the next message of a queue gets. It is where the newest row ends. When a tick
-- segment is closed keep() notes the ends of its queues in queue_tail, and drops or merges it in a
-- much later transaction, so that a tail never moves back. For a queue without a recent row the
-- note therefore says the end, unless an older segment is not noted yet. A caller whose snapshot is
-- older than the note, and who finds the segment gone, gets 40001: it can know neither the rows nor
-- the note. It is plpgsql, not sql, so that its plans are kept.
-- `recent_tick` is _recent_tick(), which is looked up if it is null.
-- Locks: none. Cost: one index lookup for each of about four partitions; for each partition only if
-- keep() is far behind.
-- Errors: 40001.
create function mqpg._tail(topic_id int, queue_id int, subscription_id int, recent_tick bigint default null)
    returns bigint
language plpgsql stable as $$
declare
    v_tail bigint;
    v_recent bigint := coalesce(_tail.recent_tick, mqpg._recent_tick());
    -- See _claim_next().
    v_newest bigint := coalesce(pg_sequence_last_value('mqpg.tick_mark') + 1048576, 9223372036854775807);
begin
    select c.base_offset + c.n into v_tail
    from mqpg.consume_queue c
    where c.topic_id = _tail.topic_id and c.queue_id = _tail.queue_id and c.subscription_id = _tail.subscription_id
        and c.tick_id >= v_recent and c.tick_id <= v_newest
    order by c.base_offset desc limit 1;
    if found then
        return v_tail;
    end if;
    if exists (
        select from mqpg.segment s
        where s.family = 'tick' and s.tails_noted_at is null and s.upper_bound::bigint <= v_recent
    ) then
        select c.base_offset + c.n into v_tail
        from mqpg.consume_queue c
        where c.topic_id = _tail.topic_id and c.queue_id = _tail.queue_id
            and c.subscription_id = _tail.subscription_id
        order by c.base_offset desc limit 1;
        if found then
            return v_tail;
        end if;
    end if;
    -- Segments go in order, so the oldest one without a note tells for all.
    if not mqpg._is_attached('consume_queue', s.segment_no)
        from mqpg.segment s where s.family = 'tick' and s.tails_noted_at is null order by s.segment_no limit 1
    then
        raise exception using errcode = '40001', message = format(
            'a segment was dropped while the end of queue %s was read: try the transaction again', _tail.queue_id);
    end if;
    select q.next_offset into v_tail
    from mqpg.queue_tail q
    where q.topic_id = _tail.topic_id and q.queue_id = _tail.queue_id
        and q.subscription_id = _tail.subscription_id;
    return coalesce(v_tail, 0);
end
$$;
