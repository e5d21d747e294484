-- What keeps a group from getting the next message of a queue: a lock, older messages of its keys, an
-- owner that is gone, an open delivery, a message that failed and blocks it or is the last one. No row
-- where the next receive() gets something.
-- Locks: none. Cost: reads the server's list of locks, and the end of the queue; linear in the claims;
-- that of _why_blocked() where a message blocks the queue, and of _why_full() where it is full.
create function mqpg._why_queue(subscription mqpg.subscription, topic mqpg.topic, last_version mqpg.cursor)
returns table (cause text, detail jsonb, remedy jsonb)
language plpgsql stable as $$
declare
    v_subscription mqpg.subscription := _why_queue.subscription;
    v_cursor mqpg.cursor := _why_queue.last_version;
    v_where jsonb := jsonb_build_object('consumer_group', v_subscription.consumer_group, 'queue_id', v_cursor.queue_id)
        || case v_subscription.member when '' then '{}' else jsonb_build_object('member', v_subscription.member) end;
    v_holder jsonb;
    v_claim mqpg.claim;
    v_nth int;          -- of _claim_to_take_over()
    v_others text;      -- consumers of the group that are at work
begin
    v_holder := coalesce(
        mqpg._lock_session(1836150833, v_subscription.subscription_id::bigint * 1024 + v_cursor.queue_id + 1),
        mqpg._lock_session(1836150843, v_subscription.subscription_id));
    if v_holder is not null then
        cause := 'queue_locked';
        detail := v_where || v_holder;
        return next;
    end if;
    if exists (
        select from mqpg.waiting_queue w
        where w.subscription_id = v_subscription.subscription_id and w.queue_id = v_cursor.queue_id)
    then
        cause := 'queue_waits';
        select v_where || jsonb_strip_nulls(jsonb_build_object(
            'after_queue', v_cursor.queue_id % g.queues_before,
            'until_offset', g.boundaries[v_cursor.queue_id % g.queues_before + 1],
            'transactions', nullif(cardinality(g.waits_for), 0)))
        into _why_queue.detail
        from mqpg.topic_growth g
        where g.topic_id = v_subscription.topic_id and v_cursor.queue_id >= g.queues_before and v_cursor.queue_id < g.queues;
        return next;
        return;
    end if;
    if mqpg._owner_is_gone(
        v_subscription.consumer_group, (_why_queue.topic).name, v_cursor.owner, v_cursor.at, interval '1 minute')
        and v_cursor.owner is not null then
        select string_agg(distinct w.detail ->> 'consumer', ', ') into v_others from mqpg.worker_status w
        where w.role = 'consumer' and w.alive and w.detail ->> 'topic' = (_why_queue.topic).name
            and w.detail ->> 'consumer_group' = v_subscription.consumer_group;
        cause := 'owner_gone';
        detail := v_where || jsonb_build_object('owner', v_cursor.owner, 'last_active_at', v_cursor.at)
            || jsonb_strip_nulls(jsonb_build_object('consumers_at_work', v_others));
        remedy := mqpg._remedy('unpin', jsonb_build_object('consumer_group', v_subscription.consumer_group,
            'topic', (_why_queue.topic).name, 'consumer', v_cursor.owner));
        return next;
        return;
    end if;
    v_nth := mqpg._claim_to_take_over(v_subscription, v_cursor.claims);
    if v_nth is not null then
        if mqpg._count_blocked(v_cursor.claims) >= 4096 then
            cause := 'keys_blocked';
            detail := v_where || jsonb_build_object('messages', mqpg._count_blocked(v_cursor.claims));
            return next;
            return;
        end if;
        if v_nth > 0 or v_cursor.claimed < mqpg._tail(v_subscription.topic_id, v_cursor.queue_id,
            case v_cursor.queue_id when -1 then v_subscription.subscription_id else 0 end) then
            return;
        end if;
    end if;
    -- Without fresh messages, all that is left is with a consumer or waits for its back-off. Where keys wait,
    -- the callers say it.
    select c.* into v_claim from unnest(v_cursor.claims) c
    where c.lease_until > clock_timestamp() and (
        c.epoch > 0 or v_subscription.on_failure = 'block_queue' or (v_nth = 0 and c.key is null))
    order by c.from_offset limit 1;
    if not found then
        return;
    end if;
    cause := case
        when v_claim.epoch < 0 and v_nth = 0 then 'retry_due'
        when v_claim.epoch < 0 then 'queue_blocked'
        when v_subscription.mode = 'shared' and v_nth is null then 'too_many_deliveries'
        else 'leased'
    end;
    detail := v_where || jsonb_strip_nulls(jsonb_build_object('queue_offset', v_claim.from_offset, 'key', v_claim.key,
        'until', v_claim.lease_until, 'attempt', v_claim.attempt, 'consumer', v_claim.consumer));
    if cause = 'retry_due' then
        detail := detail - 'attempt' || jsonb_build_object('next_attempt', v_claim.attempt + 1);
    elsif cause = 'queue_blocked' then
        select _why_queue.detail || b.detail, b.remedy into _why_queue.detail, _why_queue.remedy
        from mqpg._why_blocked(v_subscription, _why_queue.topic, v_cursor, v_claim) b;
    elsif cause = 'too_many_deliveries' then
        select _why_queue.detail || f.detail, f.remedy into _why_queue.detail, _why_queue.remedy
        from mqpg._why_full(v_subscription, _why_queue.topic, v_cursor) f;
    end if;
    return next;
end
$$;
