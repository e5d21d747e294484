-- Moves a consumer group to another place: 'earliest', 'latest', a time (the first message that became visible then
-- or later), or an offset, which needs queue_id and lies in 0 .. the queue's next one (MQ013); one below the oldest
-- that is left means the oldest. Without queue_id all of the topic's queues move; the retry lane only where queue_id
-- says -1. Receipts that were open there become stale. Of a broadcast group all members move and those to come
-- begin there, or the one named. What a seek leaves out or repeats is noted in the table jump. A consumer that keeps
-- its offset in its own database (C2) goes by that one: move it, too.
-- Locks: the topic's keeping (see _lock_topic); a broadcast group's row (see _lock_group); each queue's cursor lock,
-- waiting up to the setting lock_timeout.
-- Cost: one cursor version a queue. Errors: MQ001, MQ003, MQ005, MQ013, 55P03, 40001.
create function mqpg.seek(
    consumer_group text, topic text, target text, queue_id int default null, consumer text default null
) returns void
language plpgsql as $$
declare
    v_topic mqpg.topic := mqpg._topic(seek.topic);
    v_group mqpg.subscription := mqpg._subscription(seek.consumer_group, seek.topic);
    v_is_offset boolean := coalesce(seek.target ~ '^-?[0-9]+$', false);
    v_row mqpg.subscription;
    v_queue int;
begin
    if seek.queue_id is not null then
        perform mqpg._require_range('queue_id', seek.queue_id, -1, v_topic.queues - 1);
    elsif v_is_offset then
        raise exception using errcode = 'MQ001', message = 'an offset as target needs queue_id';
    end if;
    if not v_is_offset then
        perform mqpg._require_target('target', seek.target);
    end if;
    if seek.consumer is not null and v_group.mode <> 'broadcast' then
        raise exception using errcode = 'MQ001', message = format(
            'consumer is for mode broadcast; consumer group %L reads topic %L in mode %s', seek.consumer_group,
            seek.topic, v_group.mode);
    end if;
    perform mqpg._lock_topic(v_topic.topic_id);
    if seek.consumer is null then
        perform mqpg._lock_group(v_group);
    end if;
    for v_row in
        select s.* from mqpg.subscription s
        where v_group.subscription_id in (s.subscription_id, s.member_of)
            and (seek.consumer is null or s.member = seek.consumer)
        order by s.subscription_id
    loop
        for v_queue in coalesce(seek.queue_id, 0)..coalesce(seek.queue_id, v_topic.queues - 1) loop
            perform mqpg._lock_cursor(v_row.subscription_id, v_queue);
            perform mqpg._move_cursor(v_row, v_queue, mqpg._seek_offset(v_row, v_queue, seek.target, v_is_offset), 'seek');
        end loop;
    end loop;
    if not found then
        raise exception using errcode = 'MQ001', message = format(
            'consumer %L is no member of broadcast group %L on topic %L', seek.consumer, seek.consumer_group,
            seek.topic);
    end if;
end
$$;
comment on function mqpg.seek(text, text, text, int, text) is
    'Move a consumer group to earliest, latest, a time or an offset';
