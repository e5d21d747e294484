-- Counts everything that a topic's queues and retry lanes hold as consumed, for all its subscriptions: cursors go to
-- the end, open receipts become stale, failed messages that wait for their next attempt will not come again. Returns
-- how many deliveries that leaves out; the table jump has the offsets. What is not in a queue yet stays: undecided
-- halves, delayed messages, and what was sent and not appended. Dead letters stay (discard_dead_letters()), and bodies
-- until their retention is over.
-- Locks: each broadcast group's row (see _lock_group) and each queue's cursor lock, waiting up to the setting
-- lock_timeout.
-- Cost: one cursor version a queue of each subscription. Errors: MQ001, MQ002, MQ003, 55P03, 40001.
create function mqpg.purge_topic(topic text) returns bigint
language plpgsql as $$
declare
    v_topic mqpg.topic := mqpg._topic(purge_topic.topic);
    v_row mqpg.subscription;
    v_queue int;
    v_left_out bigint := 0;
begin
    perform mqpg._lock_group(s) from mqpg.subscription s where s.topic_id = v_topic.topic_id;
    for v_row in
        select s.* from mqpg.subscription s where s.topic_id = v_topic.topic_id order by s.subscription_id
    loop
        for v_queue in -1..v_topic.queues - 1 loop
            perform mqpg._lock_cursor(v_row.subscription_id, v_queue);
            v_left_out := v_left_out + mqpg._move_cursor(
                v_row, v_queue, mqpg._tail(v_topic.topic_id, v_queue, case v_queue when -1 then v_row.subscription_id else 0 end),
                'purge');
        end loop;
        update mqpg.subscription s set retries_from = clock_timestamp()
        where s.subscription_id = v_row.subscription_id;
    end loop;
    return v_left_out;
end
$$;
comment on function mqpg.purge_topic(text) is 'Count all that a topic''s queues hold as consumed';
