-- Why a group has not got the message at an offset of one queue, or of its retry lane (-1), or has
-- not acknowledged it. No row where it is past that offset.
-- Arguments: chosen: whether the group's filter chooses the message; it says nothing about retries.
-- Locks: none. Cost: that of _why_queue(); for a failed message also its deliveries.
create function mqpg._why_lane(
    subscription mqpg.subscription, topic mqpg.topic, queue_id int, queue_offset bigint, chosen boolean
) returns table (cause text, detail jsonb, remedy jsonb)
language plpgsql stable as $$
declare
    v_subscription mqpg.subscription := _why_lane.subscription;
    v_cursor mqpg.cursor := mqpg._newest_cursor(v_subscription.subscription_id, _why_lane.queue_id);
    v_claim mqpg.claim;
    v_where jsonb := jsonb_build_object('consumer_group', v_subscription.consumer_group,
        'queue_id', _why_lane.queue_id, 'queue_offset', _why_lane.queue_offset)
        || case v_subscription.member when '' then '{}' else jsonb_build_object('member', v_subscription.member) end;
    v_waits boolean;
    v_first bigint;
    v_rows int;
begin
    if v_cursor.version is null or mqpg._is_passed(v_cursor, _why_lane.queue_offset) then
        return;
    end if;
    return query select p.* from mqpg._why_paused(v_subscription, _why_lane.topic) p;
    get diagnostics v_rows = row_count;
    v_claim := mqpg._claim_of(v_cursor.claims, _why_lane.queue_offset);
    v_waits := v_claim.lease_until > clock_timestamp();
    if v_waits and v_claim.epoch > 0 then
        cause := 'leased';
        detail := v_where || jsonb_strip_nulls(jsonb_build_object('consumer', v_claim.consumer,
            'until', v_claim.lease_until, 'attempt', v_claim.attempt));
        return next;
        return query
        select q.* from mqpg._why_queue(v_subscription, _why_lane.topic, v_cursor) q
        where q.cause in ('queue_locked', 'owner_gone');
        return;
    end if;
    if v_waits then
        v_first := (
            select min(c.from_offset) from unnest(v_cursor.claims) c
            where c.epoch < 0 and c.key = v_claim.key and c.lease_until > clock_timestamp());
        cause := case when v_first < _why_lane.queue_offset then 'behind_key' else 'retry_due' end;
        detail := v_where || jsonb_strip_nulls(jsonb_build_object('until', v_claim.lease_until, 'key', v_claim.key,
            'blocked_by_offset', case cause when 'behind_key' then v_first end,
            'next_attempt', case cause when 'retry_due' then v_claim.attempt + 1 end,
            'reason', case cause when 'retry_due' then (
                select d.reason from mqpg._deliveries_of(
                    v_subscription.subscription_id, _why_lane.queue_id, _why_lane.queue_offset) d
                where d.failed_at is not null
                order by d.failed_at desc limit 1) end));
        if cause = 'retry_due' and v_subscription.on_failure = 'block_queue' then
            select _why_lane.detail || b.detail, b.remedy into _why_lane.detail, _why_lane.remedy
            from mqpg._why_blocked(v_subscription, _why_lane.topic, v_cursor, v_claim) b;
        end if;
        return next;
        return;
    end if;
    if v_claim.from_offset is null and not _why_lane.chosen then
        return;     -- the caller says so
    end if;
    if _why_lane.queue_id = -1 and v_subscription.mode = 'pinned' then
        -- A retry is for the owner of its queue.
        select k.owner, k.at into v_cursor.owner, v_cursor.at
        from mqpg._claimed_messages(v_subscription.topic_id, -1, v_subscription.subscription_id,
            row(null, _why_lane.queue_offset, _why_lane.queue_offset + 1, 1, null, null, null, null, null)) m
        cross join lateral mqpg._message(m.message_id) b
        cross join lateral mqpg._newest_cursor(v_subscription.subscription_id, b.queue_id) k;
    end if;
    return query select q.* from mqpg._why_queue(v_subscription, _why_lane.topic, v_cursor) q;
    if v_rows > 0 or found then
        return;
    end if;
    cause := 'waiting_for_consumer';
    detail := v_where || jsonb_strip_nulls(jsonb_build_object(
        'messages_ahead', case when v_claim.from_offset is null then _why_lane.queue_offset - v_cursor.claimed end,
        'lease_ended_at', case when v_claim.epoch > 0 then v_claim.lease_until end,
        'last_active_at', v_cursor.at, 'consumers', (
            select count(*) from mqpg.worker_status w
            where w.role = 'consumer' and w.alive and w.detail ->> 'topic' = (_why_lane.topic).name
                and w.detail ->> 'consumer_group' = v_subscription.consumer_group)));
    return next;
end
$$;
