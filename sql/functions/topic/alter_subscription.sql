-- Changes a subscription; for a broadcast group, all members at once. An argument that is null
-- leaves its value unchanged. Messages that were already delivered, or that are in retry, were
-- chosen by the old filter and tags.
-- Arguments:
--   consumer_group, topic: names of the group and the topic.
--   max_attempts: deliveries until a message becomes a dead letter.
--   retry_delay: time until the second attempt; it doubles with each further one.
--   filter: a jsonpath that chooses messages; 'true' removes the filter.
--   tags: tags that choose messages; an empty array removes them.
--   on_failure: 'skip', 'block_key' or 'block_queue'; see subscribe().
--   mode: may change between 'exclusive' and 'shared' only, because positions and claims mean
--       something else in the other modes.
-- Locks: the subscription's rows, exclusively, so that of two calls the second one starts from the
-- first one's result. If the mode becomes exclusive in a topic that got more queues, also the lock of
-- all its cursors. Each up to the setting lock_timeout.
-- Cost: one update per row, and one insert if filter or tags change, and one for mode and
-- on_failure.
-- Errors: MQ001 (argument), MQ003 (unknown topic), MQ005 (unknown subscription), MQ020 (filter),
-- MQ024 (relay topic), 55P03, 40001.
create function mqpg.alter_subscription(
    consumer_group text, topic text, max_attempts int default null, retry_delay interval default null,
    filter jsonpath default null, tags text [] default null, on_failure text default null, mode text default null
) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_checked boolean := mqpg._require_privilege('operator');
    v_new mqpg.subscription := mqpg._subscription(alter_subscription.consumer_group, alter_subscription.topic);
    v_mode text;
    v_timeout text := mqpg._apply_lock_timeout();
begin
    perform mqpg._lock_group(v_new);
    select s.* into v_new from mqpg.subscription s where s.subscription_id = v_new.subscription_id for no key update;
    if not found then
        raise exception using errcode = 'MQ005', message = format(
            'consumer group %L was unsubscribed meanwhile', alter_subscription.consumer_group);
    end if;
    v_mode := v_new.mode;
    v_new.max_attempts := coalesce(alter_subscription.max_attempts, v_new.max_attempts);
    v_new.retry_delay := coalesce(mqpg._seconds(alter_subscription.retry_delay), v_new.retry_delay);
    v_new.filter := coalesce(alter_subscription.filter, v_new.filter);
    v_new.filter := case when v_new.filter::text <> 'true' then v_new.filter end;
    v_new.tags := nullif(coalesce(alter_subscription.tags, v_new.tags), '{}');
    v_new.on_failure := coalesce(alter_subscription.on_failure, v_new.on_failure);
    v_new.mode := coalesce(alter_subscription.mode, v_new.mode);
    perform mqpg._require_subscription_options(v_new);
    if v_new.mode <> v_mode and array[v_mode, v_new.mode] <@ array['exclusive', 'shared'] is not true then
        raise exception using errcode = 'MQ001', message = format(
            'mode may change only between exclusive and shared, not from %s to %s', v_mode, v_new.mode),
            hint = 'Call unsubscribe() and subscribe() to start over in another mode.';
    end if;
    insert into mqpg.former_filter (subscription_id, filter, tags)
    select s.subscription_id, s.filter, s.tags from mqpg.subscription s
    where v_new.subscription_id in (s.subscription_id, s.member_of)
        and (s.filter::text, s.tags) is distinct from (v_new.filter::text, v_new.tags);
    insert into mqpg.former_setting (topic_id, subscription_id, name, value)
    select s.topic_id, s.subscription_id, o.name, o.value
    from mqpg.subscription s
    cross join lateral (
        values ('mode', s.mode, v_new.mode), ('on_failure', s.on_failure, v_new.on_failure)
    ) as o(name, value, new_value)
    where v_new.subscription_id in (s.subscription_id, s.member_of) and o.value <> o.new_value;
    update mqpg.subscription s set
        max_attempts = v_new.max_attempts, retry_delay = v_new.retry_delay, filter = v_new.filter,
        tags = v_new.tags, on_failure = v_new.on_failure, mode = v_new.mode
    where v_new.subscription_id in (s.subscription_id, s.member_of);
    -- Mode shared did not wait for the older messages of a key.
    if v_new.mode <> v_mode and v_new.mode = 'exclusive' and exists (
        select from mqpg.topic_growth g where g.topic_id = v_new.topic_id) then
        perform mqpg._lock_cursors(v_new.subscription_id);
        perform mqpg._await_older_queues(v_new);
    end if;
    perform set_config('lock_timeout', v_timeout, true);
end
$$;
