-- Counts everything that is in a topic's queues and retry lanes as consumed, for all its
-- subscriptions. All positions move to the end, open receipts become stale, and messages that wait
-- for their next attempt are not delivered again.
-- Messages that are not in a queue yet remain: undecided half messages, delayed messages, and
-- messages that were sent but not appended. Dead letters remain too (see discard_dead_letters()),
-- and bodies stay stored until retention is over.
-- Arguments:
--   topic: name of the topic.
-- Returns: how many deliveries were skipped.
-- Locks: the rows of the subscriptions, and one lock on all cursors of each, each up to the setting
-- lock_timeout. Meanwhile these groups receive nothing.
-- Cost: one cursor version for each queue of each subscription, and one row for each subscription.
-- Errors: MQ001, MQ002 (name), MQ003 (unknown topic), 55P03, 40001.
create function mqpg.purge_topic(topic text) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_checked boolean := mqpg._require_privilege('operator');
    v_topic mqpg.topic := mqpg._topic(purge_topic.topic);
    v_row mqpg.subscription;
    v_queue int;
    v_left_out bigint := 0;
    v_now timestamptz;
    v_timeout text := mqpg._apply_lock_timeout();
begin
    perform mqpg._lock_group(s) from mqpg.subscription s where s.topic_id = v_topic.topic_id;
    for v_row in
        select s.* from mqpg.subscription s where s.topic_id = v_topic.topic_id order by s.subscription_id
        for no key update   -- before the cursors, as alter_subscription() does
    loop
        perform mqpg._lock_cursors(v_row.subscription_id);
        for v_queue in -1..v_topic.queues - 1 loop
            v_left_out := v_left_out + mqpg._move_cursor(
                v_row, v_queue, mqpg._tail(v_topic.topic_id, v_queue,
                    case v_queue when -1 then v_row.subscription_id else 0 end),
                'purge');
        end loop;
        -- Behind all retries until now. If no keeper has run for days, or the clock was ahead, these and the
        -- next ones have one time, which the next ones then have from this purge.
        select least(
            greatest(b.written_at, v_row.retries_from) + interval '1 microsecond',
            (select c.delayed_until - interval '1 microsecond' from mqpg.clock c))
        into v_now
        from mqpg._broker_time(clock_timestamp()) b;
        insert into mqpg.former_setting (topic_id, subscription_id, name, value, replaced_at)
        values (v_topic.topic_id, v_row.subscription_id, 'retries_from', v_row.retries_from::text, v_now);
        update mqpg.subscription s set retries_from = v_now
        where s.subscription_id = v_row.subscription_id;
    end loop;
    perform set_config('lock_timeout', v_timeout, true);
    return v_left_out;
end
$$;
