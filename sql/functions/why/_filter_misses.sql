-- What the filter of a subscription finds in the message at an offset of a queue, and which fields
-- the message has, so that a misspelled name shows. An empty object without a filter, where the
-- body is no longer stored, and for a caller who may not read the topic.
-- Returns: message_id; values: as of _filter_values(); fields: at most 20 names.
-- Locks: none. Cost: one message, whose payload is parsed.
create function mqpg._filter_misses(subscription mqpg.subscription, queue_id int, queue_offset bigint) returns jsonb
language plpgsql stable as $$
declare
    v_subscription mqpg.subscription := _filter_misses.subscription;
    v_id bigint;
    v_message record;
begin
    if v_subscription.filter is null or not mqpg._has_right('read', v_subscription.topic_id) then
        return '{}';
    end if;
    v_id := (mqpg._runs(v_subscription.topic_id, _filter_misses.queue_id, 0, _filter_misses.queue_offset,
        _filter_misses.queue_offset + 1)).bodies[1];
    select m.* into v_message from mqpg._message(v_id) m;
    if not found then
        return '{}';
    end if;
    return jsonb_build_object('message_id', v_id, 'values', mqpg._filter_values(v_subscription.filter,
        v_message.key, v_message.tag, v_message.headers, v_message.payload), 'fields', (
        select coalesce(jsonb_agg(f.name), '[]')
        from (
            select left(k.name, 50) as name
            from json_object_keys(
                case when json_typeof(v_message.payload) = 'object' then v_message.payload else '{}' end
            ) as k(name)
            limit 20
        ) as f));
end
$$;
