-- Ends the ownership of pinned queues, and with it that of their messages in the retry lane. Call
-- it only when the next owner has the local database of the last one, because it begins where the
-- cursor is, and only that database knows which messages are stored there or failed there. What was
-- claimed may be received at once, and open receipts become stale, also those that the owner has in
-- the retry lane.
-- Arguments:
--   consumer_group, topic: names of the group and the topic.
--   queue_id: unpin only this queue; -1: only what is claimed in the retry lane, which has no owner
--       itself; null (default): all.
--   consumer: unpin only the queues of this consumer; null (default): of any.
-- Locks: the cursor locks of the queue and the retry lane, or of all queues at once, waited for up
-- to the setting lock_timeout.
-- Cost: one cursor version per queue.
-- Errors: MQ001 (argument, or another mode than pinned), MQ002 (name), MQ003 (unknown topic), MQ005
-- (unknown subscription), 55P03, 40001.
create function mqpg.unpin(consumer_group text, topic text, queue_id int default null, consumer text default null)
returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_subscription mqpg.subscription := mqpg._require_subscription(unpin.consumer_group, unpin.topic);
    v_topic mqpg.topic := mqpg._topic(unpin.topic);
    v_queue int;
    v_cursor mqpg.cursor;
    v_whose text := unpin.consumer;     -- whose claims in the retry lane end; null: everybody's
    v_free mqpg.claim [];
    v_claim mqpg.claim;
begin
    if v_subscription.mode <> 'pinned' then
        raise exception using errcode = 'MQ001', message = format(
            'unpin() is allowed only in mode pinned; consumer group %L reads topic %L in mode %s',
            unpin.consumer_group, unpin.topic, v_subscription.mode);
    end if;
    if unpin.queue_id is not null then
        perform mqpg._require_range('queue_id', unpin.queue_id, -1, v_topic.queues - 1);
    end if;
    if unpin.consumer is not null then
        perform mqpg._require_name('consumer', unpin.consumer);
    end if;
    if unpin.queue_id is null then
        perform mqpg._lock_cursors(v_subscription.subscription_id);
    else
        perform mqpg._lock_cursor(v_subscription.subscription_id, -1);
    end if;
    if unpin.queue_id >= 0 then
        perform mqpg._lock_cursor(v_subscription.subscription_id, unpin.queue_id);
        v_whose := (mqpg._cursor(v_subscription.subscription_id, unpin.queue_id)).owner;
        if v_whose is null or v_whose <> unpin.consumer then
            return;
        end if;
    end if;
    foreach v_queue in array array[-1] || array(
        select generate_series(greatest(unpin.queue_id, 0), coalesce(unpin.queue_id, v_topic.queues - 1)))
    loop
        v_cursor := mqpg._cursor(v_subscription.subscription_id, v_queue);
        continue when v_queue >= 0 and (v_cursor.owner is null or v_cursor.owner <> unpin.consumer
            or v_cursor.owner like '(%');   -- it waits for an older queue
        v_free := '{}';
        foreach v_claim in array v_cursor.claims loop
            v_free := v_free || case
                when v_queue = -1 and v_claim.consumer <> v_whose then v_claim
                else mqpg._free_claim(v_claim, v_cursor, v_claim.attempt)
            end;
        end loop;
        continue when v_queue = -1 and v_free = v_cursor.claims;
        perform mqpg._write_cursor(v_cursor, mqpg._action('unpin'), null, v_cursor.claimed, null, v_free);
    end loop;
end
$$;
