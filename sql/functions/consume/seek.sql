-- Moves the position of a consumer group. Receipts that were open on the moved queues become stale.
-- Offsets that this skips or repeats are reported by trace() and the audit. A consumer that stores
-- its offset in its own database (C2) follows that one, so move it there too.
-- Arguments:
--   consumer_group, topic: names of the group and the topic.
--   target: 'earliest', 'latest', a time (the first message that became visible then or later), or
--       an offset from 0 to the queue's next one, as text. An offset below the oldest one means the
--       oldest one.
--   queue_id: move only this queue, -1 being the retry lane; required when target is an offset;
--       null (default): all of the topic's queues, without the retry lane.
--   consumer: move only this member of a broadcast group; null (default): all members, and those
--       that join later start there.
-- Locks: oldest offsets against keep(), the broadcast group's rows, and the cursor lock of the
-- queue, or of all queues at once for each member, each waited for up to the setting lock_timeout.
-- Cost: one cursor version per queue.
-- Errors: MQ001 (argument), MQ003 (unknown topic), MQ005 (unknown subscription), MQ013 (offset
-- beyond the next one), 55P03, 40001.
--
-- Example:
--     select mqpg.seek('billing', 'orders', '2026-01-31 12:00+00');
--     select mqpg.seek('billing', 'orders', '1000', queue_id => 3);
create function mqpg.seek(
    consumer_group text, topic text, target text, queue_id int default null, consumer text default null
) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_checked boolean := mqpg._require_privilege('operator');
    v_topic mqpg.topic := mqpg._topic(seek.topic);
    v_group mqpg.subscription := mqpg._subscription(seek.consumer_group, seek.topic);
    v_is_offset boolean := coalesce(seek.target ~ '^-?[0-9]+$', false);
    v_row mqpg.subscription;
    v_queue int;
begin
    if seek.queue_id is not null then
        perform mqpg._require_range('queue_id', seek.queue_id, -1, v_topic.queues - 1);
    elsif v_is_offset then
        raise exception using errcode = 'MQ001', message = 'queue_id must not be null when target is an offset';
    end if;
    if not v_is_offset then
        perform mqpg._require_target('target', seek.target);
    end if;
    if seek.consumer is not null and v_group.mode <> 'broadcast' then
        raise exception using errcode = 'MQ001', message = format(
            'consumer is allowed only in mode broadcast; consumer group %L reads topic %L in mode %s',
            seek.consumer_group, seek.topic, v_group.mode);
    end if;
    perform mqpg._lock_oldest();
    if seek.consumer is null then
        perform mqpg._lock_group(v_group);
    end if;
    for v_row in
        select s.* from mqpg.subscription s
        where v_group.subscription_id in (s.subscription_id, s.member_of)
            and (seek.consumer is null or s.member = seek.consumer)
        order by s.subscription_id
    loop
        if seek.queue_id is null then
            perform mqpg._lock_cursors(v_row.subscription_id);
        else
            perform mqpg._lock_cursor(v_row.subscription_id, seek.queue_id);
        end if;
        for v_queue in coalesce(seek.queue_id, 0)..coalesce(seek.queue_id, v_topic.queues - 1) loop
            perform mqpg._move_cursor(
                v_row, v_queue, mqpg._seek_offset(v_row, v_queue, seek.target, v_is_offset), 'seek');
        end loop;
        if seek.queue_id is null and (v_row.mode <> 'broadcast' or v_row.member <> '') then
            perform mqpg._await_older_queues(v_row);
        end if;
    end loop;
    if not found then
        raise exception using errcode = 'MQ001', message = format(
            'consumer %L is not a member of broadcast group %L on topic %L', seek.consumer, seek.consumer_group,
            seek.topic);
    end if;
end
$$;
