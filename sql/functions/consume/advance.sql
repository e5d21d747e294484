-- Moves the position of a consumer group to offsets that its reader has stored elsewhere, such as a
-- stream of Spark in its checkpoint. The messages up to them count as delivered and acknowledged.
-- The group must be of mode exclusive, without filter and tags. A queue where the position and the
-- stored offset disagree raises, and nothing is moved: the position is beyond the offset, a seek()
-- moved it back since, or a consumer has messages of it. A queue that waits for an older one, because
-- alter_topic() made it, is left out until it does not wait any longer.
-- Arguments:
--   consumer_group, topic: names of the group and the topic.
--   queue_ids: the queues, 0 to the topic's queues - 1.
--   offsets: an array as long as queue_ids with the offset of the next message to read of each.
--   identity: what topic_offsets() said of the topic; null (default): not compared.
-- Locks: the cursor locks of the queues, in ascending order, or with more than 50 queues the lock of
-- all cursors, each waited for up to the setting lock_timeout.
-- Cost: two cursor versions for each queue that moves.
-- Errors: MQ001 (argument, or another mode or a filter), MQ003 (unknown topic, or another identity),
-- MQ005 (unknown subscription), MQ013 (an offset disagrees with the position, or is beyond the next
-- one), 55P03, 40001.
create function mqpg.advance(
    consumer_group text, topic text, queue_ids int [], offsets bigint [], identity text default null
) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_subscription mqpg.subscription := mqpg._require_subscription(advance.consumer_group, advance.topic);
    v_topic mqpg.topic := mqpg._topic(advance.topic);
    v_identity text := mqpg._require_identity(v_topic, advance.identity);
    v_one record;
begin
    if v_subscription.mode <> 'exclusive' or v_subscription.filter is not null or v_subscription.tags is not null then
        raise exception using errcode = 'MQ001', message = format(
            'consumer_group must be of mode exclusive, without filter and tags: %L is not, on topic %L',
            advance.consumer_group, advance.topic);
    end if;
    if advance.queue_ids is null or advance.offsets is null
        or array_ndims(advance.queue_ids) > 1 or array_ndims(advance.offsets) > 1
        or cardinality(advance.queue_ids) <> cardinality(advance.offsets)
        or exists (
            select from unnest(advance.queue_ids, advance.offsets) as u(queue_id, next_offset)
            where u.queue_id is null or u.next_offset is null)
    then
        raise exception using errcode = 'MQ001',
            message = 'queue_ids and offsets must be one-dimensional arrays of one length without null';
    end if;
    if cardinality(advance.queue_ids) > 50 then
        perform mqpg._lock_cursors(v_subscription.subscription_id);
    end if;
    for v_one in
        select u.queue_id, u.next_offset from unnest(advance.queue_ids, advance.offsets) as u(queue_id, next_offset)
        order by 1, 2
    loop
        perform mqpg._require_range('queue_ids', v_one.queue_id, 0, v_topic.queues - 1);
        perform mqpg._require_range('offsets', v_one.next_offset, 0, 9223372036854775807);
        continue when exists (
            select from mqpg.waiting_queue w
            where w.subscription_id = v_subscription.subscription_id and w.queue_id = v_one.queue_id);
        if cardinality(advance.queue_ids) <= 50 then
            perform mqpg._lock_cursor(v_subscription.subscription_id, v_one.queue_id);
        end if;
        perform mqpg._advance_queue(v_subscription, v_one.queue_id, v_one.next_offset);
    end loop;
end
$$;
