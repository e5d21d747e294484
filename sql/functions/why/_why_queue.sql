-- What keeps a group from getting the next message of a queue: a lock, an owner that is gone, an
-- open delivery, a message that failed and blocks it. No row where the next receive() gets
-- something.
-- Locks: none. Cost: reads the server's list of locks; linear in the claims; where a message blocks
-- the queue, one lookup and at most 100 cursor versions.
create function mqpg._why_queue(subscription mqpg.subscription, topic mqpg.topic, last_version mqpg.cursor)
returns table (cause text, detail jsonb, remedy text)
language plpgsql stable as $$
declare
    v_subscription mqpg.subscription := _why_queue.subscription;
    v_cursor mqpg.cursor := _why_queue.last_version;
    v_where jsonb := jsonb_build_object('consumer_group', v_subscription.consumer_group, 'queue_id', v_cursor.queue_id)
        || case v_subscription.member when '' then '{}' else jsonb_build_object('member', v_subscription.member) end;
    v_holder jsonb;
    v_claim mqpg.claim;
    v_others text;      -- consumers of the group that are at work
    v_message_id bigint;
    v_reason text;
begin
    v_holder := coalesce(
        mqpg._lock_session(1836150833, v_subscription.subscription_id::bigint * 1024 + v_cursor.queue_id + 1),
        mqpg._lock_session(1836150843, v_subscription.subscription_id));
    if v_holder is not null then
        cause := 'queue_locked';
        detail := v_where || v_holder;
        remedy := 'An open transaction works on the queue, and has to commit or roll back. If it hangs: '
            || mqpg._ending(v_holder);
        return next;
    end if;
    if mqpg._owner_is_gone(v_subscription.consumer_group, (_why_queue.topic).name, v_cursor.owner, v_cursor.at)
        and v_cursor.owner is not null then
        select string_agg(distinct w.detail ->> 'consumer', ', ') into v_others from mqpg.worker_status w
        where w.role = 'consumer' and w.alive and w.detail ->> 'topic' = (_why_queue.topic).name
            and w.detail ->> 'consumer_group' = v_subscription.consumer_group;
        cause := 'owner_gone';
        detail := v_where || jsonb_build_object('owner', v_cursor.owner, 'last_active_at', v_cursor.at)
            || jsonb_strip_nulls(jsonb_build_object('consumers_at_work', v_others));
        remedy := format('Start the consumer %1$s again%4$s. Only if it is gone for good: select mqpg.unpin(%2$L, '
            '%3$L, consumer => %1$L);', v_cursor.owner, v_subscription.consumer_group, (_why_queue.topic).name,
            ' (at work under another name, which owns no such queue: ' || v_others || ')');
        return next;
        return;
    end if;
    if mqpg._next_claim(v_subscription, v_cursor.claims) >= 0 then
        if mqpg._count_blocked(v_cursor.claims) >= 4096 then
            cause := 'keys_blocked';
            detail := v_where || jsonb_build_object('messages', mqpg._count_blocked(v_cursor.claims));
            remedy := 'So many messages wait behind failed ones with their keys that no fresh one is delivered. '
                'Mend what makes the handler fail.';
            return next;
        end if;
        return;
    end if;
    select c.* into v_claim from unnest(v_cursor.claims) c
    where c.lease_until > clock_timestamp() and (
        c.epoch > 0 or v_subscription.on_failure = 'block_queue')
    order by c.from_offset limit 1;
    cause := case
        when v_claim.epoch < 0 then 'queue_blocked'
        when v_subscription.mode = 'shared' then 'too_many_deliveries'
        else 'leased'
    end;
    if cause = 'queue_blocked' then
        v_message_id := (mqpg._runs((_why_queue.topic).topic_id, v_cursor.queue_id, 0, v_claim.from_offset,
            v_claim.from_offset + 1)).ids[1];
        select c.reason into v_reason from mqpg.cursor c
        where c.subscription_id = v_cursor.subscription_id and c.queue_id = v_cursor.queue_id
            and c.version > v_cursor.version - 100 and c.action = 'n' and v_claim.from_offset = any(c.failed)
        order by c.version desc limit 1;
    end if;
    detail := v_where || jsonb_strip_nulls(jsonb_build_object('queue_offset', v_claim.from_offset, 'key', v_claim.key,
        'message_id', v_message_id, 'reason', v_reason, 'until', v_claim.lease_until, 'attempt', v_claim.attempt, 'consumer', v_claim.consumer));
    remedy := case cause
        when 'queue_blocked' then format('Message %s at offset %s of queue %s has failed %s%s. It is delivered again '
            'at %s, and the queue waits for it (on_failure block_queue). Mend what makes the handler fail.',
            v_message_id, v_claim.from_offset, v_cursor.queue_id,
            case v_claim.attempt when 1 then 'once' else v_claim.attempt || ' times' end,
            ' (' || left(v_reason, 200) || ')', v_claim.lease_until)
        when 'too_many_deliveries' then format('A queue has 64 open deliveries at most. The oldest is that of %s, which '
            'has to acknowledge it, or its lease ends at %s.',
            coalesce('the consumer ' || v_claim.consumer, 'a consumer without a name'), v_claim.lease_until)
        else format('Its consumer has to call ack() or nack(). At %s its lease ends, and the next receive() takes '
            'the messages over.', v_claim.lease_until)
    end;
    return next;
end
$$;
comment on function mqpg._why_queue(mqpg.subscription, mqpg.topic, mqpg.cursor) is
    'Internal: what keeps a group from getting the next message of a queue';
