-- Notes the next offset of every queue that has rows in a closed tick segment, as soon as the
-- segment is closed and in the same transaction, so that receive() need not look for them in closed
-- segments. Its rows are dropped by a much later transaction. A caller that finds no row of a queue
-- therefore finds the note, also if it waited while the rows were dropped. The notes of topics and
-- retry lanes that have ended are deleted.
-- Locks: the rows of queue_tail and segment.
-- Cost: reads the segment's part of consume_queue once in its life.
create function mqpg._note_tails() returns void
language plpgsql as $$
declare
    v_segment mqpg.segment;
begin
    for v_segment in
        select s.* from mqpg.segment s
        where s.family = 'tick' and s.closed_at is not null and s.tails_noted_at is null
        order by s.segment_no
    loop
        insert into mqpg.queue_tail as q (topic_id, queue_id, subscription_id, next_offset)
        select c.topic_id, c.queue_id, c.subscription_id, max(c.base_offset + c.n)
        from mqpg.consume_queue c
        join mqpg.topic t on t.topic_id = c.topic_id
        where c.tick_id >= v_segment.lower_bound::bigint and c.tick_id < v_segment.upper_bound::bigint
        group by 1, 2, 3
        on conflict (topic_id, queue_id, subscription_id) do update
        set next_offset = greatest(q.next_offset, excluded.next_offset);
        update mqpg.segment s set tails_noted_at = clock_timestamp()
        where s.family = 'tick' and s.segment_no = v_segment.segment_no;
        delete from mqpg.queue_tail q
        where q.topic_id <> 0 and (
            not exists (select from mqpg.topic t where t.topic_id = q.topic_id)
            or q.subscription_id <> 0 and not exists (
                select from mqpg.subscription s where s.subscription_id = q.subscription_id));
    end loop;
end
$$;
