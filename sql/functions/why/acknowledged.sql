-- Whether a consumer group has acknowledged a message. A dead letter is not acknowledged, because
-- redrive() delivers it again, and neither is a message that waits for its next attempt. In a
-- broadcast group all members that have joined must have acknowledged it, and at least one must
-- have joined. For a half message of a relay topic it asks about its COMMIT. A message that the
-- group never gets raises MQ018: it was rolled back, recalled, skipped by a seek, purge, expiry or
-- policy, the filter does not choose it, or the group began behind it. So true means an effect,
-- except for a group that began behind it so long ago that the history of its cursors is dropped.
-- Arguments:
--   message_id: id of the message.
--   consumer_group: name of the group.
-- Locks: none.
-- Cost: a few index lookups; where the group has a filter, its deliveries and the body.
-- Errors: MQ001 (null, negative, or no such message), MQ002 (name), MQ005 (not subscribed), MQ018
-- (the group never gets it), MQ025.
create function mqpg.acknowledged(message_id bigint, consumer_group text) returns boolean
language plpgsql stable security definer set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off as $$
declare
    v_message record;
    v_group mqpg.subscription;
begin
    perform mqpg._require_range('message_id', acknowledged.message_id, 0, 9223372036854775807);
    perform mqpg._require_name('consumer_group', acknowledged.consumer_group);
    select m.* into v_message from mqpg._message(acknowledged.message_id) m;
    if not found then
        perform mqpg._require_fresh(acknowledged.message_id);
    end if;
    select s.* into v_group from mqpg.subscription s
    where s.topic_id = v_message.topic_id and s.consumer_group = acknowledged.consumer_group and s.member = '';
    if not mqpg._has_privilege('operator', 'auditor') and not mqpg._is_among(v_group.receivers) and not (case
        when v_group.subscription_id is null then mqpg._has_right('read', null)
        else mqpg._has_right('receive', v_group.subscription_id)
    end) then
        perform mqpg._refuse(
            format('may not ask what consumer group %L has acknowledged of this topic', acknowledged.consumer_group),
            'grant_receive', jsonb_build_object('consumer_group', acknowledged.consumer_group, 'topic', null));
    end if;
    if v_message.kind is null then
        raise exception using errcode = 'MQ001',
            message = format('message_id %s names no message here', acknowledged.message_id),
            hint = 'It was rolled back with its transaction, belongs to another broker, or its retention is over.';
    end if;
    if v_group.subscription_id is null then
        raise exception using errcode = 'MQ005', message = format(
            'consumer group %L does not read the topic of message %s', acknowledged.consumer_group,
            acknowledged.message_id),
            detail = mqpg._remedy('subscribe', jsonb_build_object(
                'consumer_group', acknowledged.consumer_group, 'topic', null))::text,
            hint = 'subscribe() creates a subscription.';
    end if;
    return mqpg._acknowledged(acknowledged.message_id, v_group);
end
$$;
