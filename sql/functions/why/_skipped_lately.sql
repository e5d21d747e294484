-- What a subscription has skipped in each queue since it last got a message of that queue, since a
-- seek, or since its filter was set, whichever was last.
-- Returns: messages: how many came since then; since: when the first of them became visible;
--   filter_from: since when the filter is as it is; all_skipped: whether it is known that all of
--   them were skipped. It is false where the last delivery is many versions of the cursor ago, so
--   that they are counted from filter_from on. queues and offsets: for each queue of which it is
--   known, where the skipped ones begin. All that the queue had before is done, so that a seek to
--   there leaves nothing out and repeats nothing.
-- Locks: none. Cost: up to 2,000 versions of the cursors, at least 20 of each queue, and about 30
-- index lookups for each queue, at most 100 of them.
create function mqpg._skipped_lately(
    subscription mqpg.subscription, topic mqpg.topic, out messages bigint, out since timestamptz,
    out filter_from timestamptz, out all_skipped boolean, out queues int [], out offsets bigint []
)
language plpgsql stable as $$
declare
    v_id int := (_skipped_lately.subscription).subscription_id;
    v_topic_id int := (_skipped_lately.topic).topic_id;
    v_queues int := least((_skipped_lately.topic).queues, 100);
    v_altered timestamptz;
    v_queue int;
    v_from bigint;
    v_to bigint;
    v_first mqpg.cursor;
    v_known boolean;
begin
    messages := 0;
    all_skipped := true;
    queues := '{}';
    offsets := '{}';
    select max(f.replaced_at) into v_altered from mqpg.former_filter f where f.subscription_id = v_id;
    filter_from := coalesce(v_altered, (_skipped_lately.subscription).created_at);
    for v_queue in 0..v_queues - 1 loop
        v_to := (mqpg._newest_cursor(v_id, v_queue)).committed;
        select k.claimed into v_from
        from (
            select c.* from mqpg.cursor c
            where c.subscription_id = v_id and c.queue_id = v_queue
            order by c.version desc limit greatest(2000 / v_queues, 20)
        ) as k
        where k.action = any(mqpg._actions('subscribe', 'receive', 'ack_and_receive', 'take_over', 'moved'))
            or k.at <= v_altered
        order by k.version desc limit 1;
        v_known := found;
        if not v_known then
            all_skipped := false;
            select c.* into v_first from mqpg.cursor c
            where c.subscription_id = v_id and c.queue_id = v_queue
            order by c.version limit 1;
            v_from := case
                when v_altered is null and v_first.action = mqpg._action('subscribe') then v_first.committed
                else mqpg._offset_at_time(v_topic_id, v_queue, 0, filter_from)
            end;
        end if;
        v_from := greatest(v_from, mqpg._oldest(v_topic_id, v_queue, 0));
        continue when v_to <= v_from;
        if v_known then
            queues := queues || v_queue;
            offsets := offsets || v_from;
        end if;
        messages := messages + v_to - v_from;
        since := least(since, (
            select k.at from mqpg.tick k
            where k.tick_id = (
                select c.tick_id from mqpg.consume_queue c
                where c.topic_id = v_topic_id and c.queue_id = v_queue and c.subscription_id = 0
                    and c.base_offset <= v_from
                order by c.base_offset desc limit 1)));
    end loop;
end
$$;
