-- Notes from which offset on consumers of a group keep a journal, or no longer keep one. The library
-- calls it when a consumer starts, before its first delivery. What was claimed by then belongs to
-- consumers that were there before, also if a seek brings it again.
-- Arguments:
--   consumer: its name, for mode broadcast.
--   kept: whether it keeps a journal.
--   kept_before: whether the journal has rows of this group, from a release that noted nothing.
-- Returns: false if a member of a broadcast group could not join now, so that nothing is noted.
-- Locks: the rows of the subscription in queue_start; for a new member those of _member().
-- Cost: three index lookups for each queue.
-- Errors: MQ003 (unknown topic), MQ005 (unknown subscription).
create function mqpg._note_journal(
    consumer_group text, topic text, consumer text, kept boolean, kept_before boolean
) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_subscription mqpg.subscription := mqpg._require_subscription(_note_journal.consumer_group, _note_journal.topic);
    v_queues int := (mqpg._topic(_note_journal.topic)).queues;
    v_queue record;
    v_cursor mqpg.cursor;
    v_journal int8multirange;
begin
    if v_subscription.mode = 'broadcast' then
        v_subscription := mqpg._member(v_subscription, v_queues, _note_journal.consumer);
        if v_subscription.subscription_id is null then
            return false;
        end if;
    end if;
    insert into mqpg.queue_start (subscription_id, queue_id)
    select v_subscription.subscription_id, q.queue_id from generate_series(-1, v_queues - 1) as q(queue_id)
    on conflict do nothing;
    for v_queue in
        select s.queue_id, s.start_offset, s.journal from mqpg.queue_start s
        where s.subscription_id = v_subscription.subscription_id order by s.queue_id for update
    loop
        -- An open end says that it is kept now. Null says nothing: it was kept, or not.
        continue when upper_inf(v_queue.journal) = _note_journal.kept;
        v_cursor := mqpg._cursor(v_subscription.subscription_id, v_queue.queue_id);
        v_journal := case
            when _note_journal.kept and v_queue.journal is null and _note_journal.kept_before
                then int8multirange(int8range(0, null))
            when _note_journal.kept
                then coalesce(v_queue.journal, '{}') + int8multirange(int8range(greatest(v_cursor.claimed, (
                    select max(j.to_offset) from mqpg.position_jump j
                    where j.subscription_id = v_subscription.subscription_id and j.queue_id = v_queue.queue_id and j.back
                )), null))
            when v_queue.journal is not null
                then v_queue.journal * int8multirange(int8range(null, v_cursor.committed))
            when v_cursor.claimed = v_queue.start_offset then '{}'
        end;
        update mqpg.queue_start s set journal = v_journal
        where s.subscription_id = v_subscription.subscription_id and s.queue_id = v_queue.queue_id;
    end loop;
    return true;
end
$$;
