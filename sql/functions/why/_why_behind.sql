-- What keeps a subscription from reading on, queue by queue, the one that waited longest first.
-- Locks: none. Cost: two index lookups for each queue, and that of _why_queue() for at most 100
-- queues with unread messages.
create function mqpg._why_behind(subscription mqpg.subscription, topic mqpg.topic)
returns table (cause text, detail jsonb, remedy jsonb)
language plpgsql stable as $$
declare
    v_subscription mqpg.subscription := _why_behind.subscription;
    v_where jsonb := jsonb_build_object('consumer_group', v_subscription.consumer_group)
        || case v_subscription.member when '' then '{}' else jsonb_build_object('member', v_subscription.member) end;
    v_queue record;
    v_idle boolean := true;     -- no queue with unread messages has moved for a minute
    v_messages bigint := 0;
    v_active_at timestamptz;
    v_fallow boolean := true;   -- there is no row yet
begin
    for v_queue in
        select c as state, n.tail
        from generate_series(-1, (_why_behind.topic).queues - 1) as q(queue_id)
        cross join lateral mqpg._newest_cursor(v_subscription.subscription_id, q.queue_id) as c
        cross join lateral mqpg._tail((_why_behind.topic).topic_id, q.queue_id,
            case q.queue_id when -1 then v_subscription.subscription_id else 0 end) as n(tail)
        where n.tail > c.committed
        order by c.at limit 100
    loop
        v_messages := v_messages + v_queue.tail - (v_queue.state).committed;
        v_active_at := greatest(v_active_at, (v_queue.state).at);
        v_idle := v_idle and (v_queue.state).at < clock_timestamp() - interval '1 minute';
        return query
        select w.* from mqpg._why_queue(v_subscription, _why_behind.topic, v_queue.state) w;
        v_fallow := v_fallow and not found;
        return query
        select 'behind_key', v_where || jsonb_build_object('queue_id', (v_queue.state).queue_id, 'key', k.key,
            'blocked_by_offset', k.first, 'until', k.until), null::jsonb
        from (
            select c.key, min(c.from_offset) as first, max(c.lease_until) as until
            from unnest((v_queue.state).claims) c
            where c.epoch < 0 and c.key is not null and c.lease_until > clock_timestamp()
            group by c.key order by 2 limit 10
        ) as k;
        -- Others of the queue may wait for a consumer.
        v_fallow := v_fallow and not (found and (v_queue.state).claimed >= v_queue.tail
            and mqpg._claim_to_take_over(v_subscription, (v_queue.state).claims) = 0);
    end loop;
    if v_messages > 0 and v_fallow and v_idle and not v_subscription.paused and not (_why_behind.topic).paused then
        cause := 'waiting_for_consumer';
        detail := v_where || jsonb_build_object('messages', v_messages, 'last_active_at', v_active_at, 'consumers', (
            select count(*) from mqpg.worker_status w
            where w.role = 'consumer' and w.alive and w.detail ->> 'topic' = (_why_behind.topic).name
                and w.detail ->> 'consumer_group' = v_subscription.consumer_group));
        return next;
    end if;
    if v_subscription.filter is not null or v_subscription.tags is not null then
        return query select f.* from mqpg._why_filter(v_subscription, _why_behind.topic) f;
    end if;
end
$$;
