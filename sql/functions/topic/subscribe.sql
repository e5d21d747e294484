-- Subscribes a consumer group to a topic. Repeated with equal arguments it changes nothing.
-- Arguments:
--   consumer_group, topic: names of the group and the topic.
--   mode: 'exclusive' (default): one consumer at a time reads a queue. 'shared': several ranges of
--       a queue are in flight at once. 'pinned': a queue stays with one named consumer until
--       unpin(). 'broadcast': every named consumer gets every message.
--   start: where to begin: 'earliest' (default; the queue's oldest offset), 'latest' (only messages
--       that come from now on), or a time (the first message that became visible then or later).
--   filter: a jsonpath that chooses messages by payload, headers, key and tag; null (default) or
--       'true' chooses all.
--   tags: tags that choose messages; null (default) or an empty array chooses all. With a filter,
--       both must match.
--   max_attempts: deliveries until a message becomes a dead letter, 1 to 10000; default 16.
--   retry_delay: time until the second attempt, doubled with each further one; default 10 s.
--   on_failure: 'skip' (default; the failed message is retried later and the queue continues),
--       'block_key' or 'block_queue' (messages behind it, of the same key or all, wait for it).
-- Locks: the new row, which waits up to the setting lock_timeout for a drop of the topic; those of
-- _cursor_slot().
-- Cost: one cursor row per queue.
-- Errors: MQ001 (argument), MQ002 (name), MQ003 (unknown topic), MQ011 (subscribed with other
-- arguments), MQ020 (filter), MQ024 (not for a relay topic), MQ027 (no id is left), 55P03.
--
-- Example:
--     select mqpg.subscribe('billing', 'orders', mode => 'shared', max_attempts => 5);
create function mqpg.subscribe(
    consumer_group text, topic text, mode text default 'exclusive', start text default 'earliest',
    filter jsonpath default null, tags text [] default null, max_attempts int default 16,
    retry_delay interval default '10 s', on_failure text default 'skip'
) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_checked boolean := mqpg._require_privilege('operator');
    v_topic mqpg.topic;
    v_new mqpg.subscription;
    v_old mqpg.subscription;
    v_timeout text;
    v_slot int;
    v_fixed text [];    -- why alter_subscription() cannot help, and what can
begin
    perform mqpg._require_name('consumer_group', subscribe.consumer_group);
    v_topic := mqpg._topic(subscribe.topic);
    v_new.topic_id := v_topic.topic_id;
    v_new.consumer_group := subscribe.consumer_group;
    v_new.mode := subscribe.mode;
    v_new.start := subscribe.start;
    v_new.filter := case when subscribe.filter::text <> 'true' then subscribe.filter end;
    v_new.tags := nullif(subscribe.tags, '{}');
    v_new.max_attempts := subscribe.max_attempts;
    v_new.retry_delay := mqpg._seconds(subscribe.retry_delay);
    v_new.on_failure := subscribe.on_failure;
    perform mqpg._require_target('start', subscribe.start);
    perform mqpg._require_subscription_options(v_new);
    perform mqpg._lock_oldest();
    -- A look first, because a conflict would use up an id, and only two million ids fit into a
    -- cursor lock's key.
    v_timeout := mqpg._apply_lock_timeout();
    begin
        insert into mqpg.subscription (
            consumer_group, topic_id, mode, start, filter, tags, max_attempts, retry_delay, on_failure)
        select subscribe.consumer_group, v_topic.topic_id, v_new.mode, v_new.start, v_new.filter, v_new.tags,
            v_new.max_attempts, v_new.retry_delay, v_new.on_failure
        where not exists (
            select from mqpg.subscription s
            where s.topic_id = v_topic.topic_id and s.consumer_group = subscribe.consumer_group and s.member = '')
        on conflict do nothing
        returning subscription_id into v_new.subscription_id;
    exception when foreign_key_violation then
        raise exception using errcode = 'MQ003', message = format('topic %L was dropped meanwhile', subscribe.topic);
    end;
    perform set_config('lock_timeout', v_timeout, true);
    if v_new.subscription_id is not null then
        perform mqpg._require_subscription_id(v_new.subscription_id);
        -- Again, because queues may have been added before the new row locked the topic.
        v_topic := mqpg._topic(subscribe.topic);
        v_slot := mqpg._cursor_slot();
        insert into mqpg.cursor (subscription_id, queue_id, slot, version, committed, claimed, at, action, claims)
        select v_new.subscription_id, q.queue_id, v_slot, 1, p.position, p.position, clock_timestamp(),
            mqpg._action('subscribe'), '{}'
        from generate_series(-1, v_topic.queues - 1) as q(queue_id),
            lateral (select case q.queue_id
                when -1 then 0 else mqpg._target_offset(v_topic.topic_id, q.queue_id, 0, v_new.start)
            end) as p(position);
        perform mqpg._note_starts(v_new.subscription_id, -1, v_topic.queues - 1);
        v_new := mqpg._subscription(subscribe.consumer_group, subscribe.topic);
        if v_new.mode <> 'broadcast' then
            perform mqpg._await_older_queues(v_new);
        end if;
        return;
    end if;
    v_old := mqpg._subscription(subscribe.consumer_group, subscribe.topic);
    if (v_old.mode, v_old.start, v_old.filter::text, v_old.tags, v_old.max_attempts, v_old.retry_delay,
        v_old.on_failure)
        is distinct from (v_new.mode, v_new.start, v_new.filter::text, v_new.tags, v_new.max_attempts,
            v_new.retry_delay, v_new.on_failure) then
        v_fixed := case
            when v_old.mode <> v_new.mode and not array[v_old.mode, v_new.mode] <@ array['exclusive', 'shared']
                then array['The mode may change only between exclusive and shared.',
                    'Call unsubscribe() and subscribe() to start over in another mode.']
            when v_old.start <> v_new.start
                then array['start is for a new subscription.', 'Repeat the first one, and call seek() to move it.']
        end;
        raise exception using errcode = 'MQ011', message = format(
            'consumer group %L is subscribed to %L with other arguments', subscribe.consumer_group, subscribe.topic),
            detail = coalesce(v_fixed[1], mqpg._remedy('alter_subscription', jsonb_build_object(
                'consumer_group', subscribe.consumer_group, 'topic', subscribe.topic))::text),
            hint = coalesce(v_fixed[2], 'Call alter_subscription() to change it.');
    end if;
end
$$;
