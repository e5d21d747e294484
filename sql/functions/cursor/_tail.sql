-- The offset that the next message of a queue gets. When a segment is closed keep() notes the tails
-- in queue_tail, and drops the segment in a much later transaction, so that a tail never moves
-- back. A caller whose snapshot is older than the note, and who finds the segment gone, gets 40001:
-- it can know neither the rows nor the note. It is plpgsql, not sql, so that its plans are kept.
-- Locks: none. Cost: one index lookup for each partition.
-- Errors: 40001.
create function mqpg._tail(topic_id int, queue_id int, subscription_id int) returns bigint
language plpgsql stable as $$
declare
    v_tail bigint;
begin
    select c.base_offset + c.n into v_tail
    from mqpg.consume_queue c
    where c.topic_id = _tail.topic_id and c.queue_id = _tail.queue_id and c.subscription_id = _tail.subscription_id
    order by c.base_offset desc limit 1;
    if not found then
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
    end if;
    return coalesce(v_tail, 0);
end
$$;
comment on function mqpg._tail(int, int, int) is 'Internal: next offset of a queue';
