-- Why a group has not got a message that has its offset, or has not acknowledged it. No row where
-- it has.
-- Arguments: message_id, queue_offset: the message and its place; body_id: where its body lies.
-- Locks: none. Cost: a few index lookups, and one message read where the group has a filter.
create function mqpg._why_group_lacks(
    subscription mqpg.subscription, topic mqpg.topic, message_id bigint, body_id bigint, queue_offset bigint
) returns table (cause text, detail jsonb, remedy jsonb)
language plpgsql stable as $$
declare
    v_subscription mqpg.subscription := _why_group_lacks.subscription;
    v_group text := v_subscription.consumer_group;
    v_where jsonb := jsonb_build_object('consumer_group', v_group)
        || case v_subscription.member when '' then '{}' else jsonb_build_object('member', v_subscription.member) end;
    v_message record;
    v_cursor mqpg.cursor;
    v_letter mqpg.dead_letter;
    v_retry record;
    v_chosen boolean := true;
begin
    select m.* into v_message from mqpg._message(_why_group_lacks.body_id) m;
    if _why_group_lacks.queue_offset is not null then
        v_cursor := mqpg._newest_cursor(v_subscription.subscription_id, v_message.queue_id);
        if v_subscription.filter is not null or v_subscription.tags is not null then
            v_chosen := mqpg._matches(v_subscription.filter, v_subscription.tags, v_message.key, v_message.tag,
                v_message.headers, v_message.payload);
        end if;
        return query
        select l.* from mqpg._why_lane(
            v_subscription, _why_group_lacks.topic, v_message.queue_id, _why_group_lacks.queue_offset, v_chosen) l;
        if found and v_chosen then
            return;
        end if;
    end if;
    select d.* into v_letter from mqpg.dead_letter d
    where d.subscription_id = v_subscription.subscription_id and d.message_id = _why_group_lacks.message_id;
    if found then
        cause := 'dead_letter';
        detail := v_where || jsonb_strip_nulls(jsonb_build_object('reason', v_letter.reason,
            'attempts', v_letter.attempts, 'died_at', v_letter.died_at));
        remedy := mqpg._remedy('redrive', jsonb_build_object('consumer_group', v_group,
            'topic', (_why_group_lacks.topic).name, 'message_ids', jsonb_build_array(_why_group_lacks.message_id)));
        return next;
        return;
    end if;
    return query
    select f.* from mqpg._why_former_letter(v_subscription, v_message.queue_id, _why_group_lacks.queue_offset,
        _why_group_lacks.message_id) f;
    if found then
        return;
    end if;
    select r.* into v_retry from mqpg._retry_of(v_subscription, _why_group_lacks.message_id) r;
    if v_retry.visible_at is not null and v_retry.tick_id is null and not v_retry.purged then
        cause := 'retry_due';
        detail := v_where || jsonb_strip_nulls(jsonb_build_object('until', v_retry.visible_at,
            'next_attempt', v_retry.attempt, 'reason', v_retry.reason));
        remedy := null;
        return next;
        if v_retry.visible_at <= clock_timestamp() then
            return query select n.* from mqpg._why_not_appended() n;
        end if;
        return;
    end if;
    if v_retry.queue_offset is not null then
        return query
        select l.* from mqpg._why_lane(v_subscription, _why_group_lacks.topic, -1, v_retry.queue_offset, true) l;
        if found then
            return;
        end if;
    end if;
    if v_cursor.version is null then
        return;
    end if;
    if mqpg._is_passed(v_cursor, _why_group_lacks.queue_offset) then
        return query
        select s.* from mqpg._why_skipped(v_subscription, _why_group_lacks.topic, v_message.queue_id,
            _why_group_lacks.queue_offset, v_retry.written_at, v_retry.queue_offset, v_retry.purged) s;
        if found or v_retry.visible_at is not null or not mqpg._is_filtered(v_subscription, v_message.queue_id,
            _why_group_lacks.queue_offset, v_message.key, v_message.tag, v_message.headers, v_message.payload) then
            return;
        end if;
    elsif v_chosen then
        return;
    end if;
    cause := 'filtered_out';
    detail := v_where || jsonb_strip_nulls(jsonb_build_object('filter', v_subscription.filter::text,
        'tags', to_jsonb(v_subscription.tags))) || jsonb_build_object('tag', v_message.tag)
        || case
            when v_subscription.filter is not null and mqpg._has_right('read', v_message.topic_id)
                then jsonb_build_object('values', mqpg._filter_values(v_subscription.filter, v_message.key,
                    v_message.tag, v_message.headers, v_message.payload))
            else '{}'
        end;
    remedy := mqpg._filter_remedy(v_subscription, _why_group_lacks.topic);
    return next;
end
$$;
