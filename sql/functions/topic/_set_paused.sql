-- Pauses or resumes a topic or one subscription. For a broadcast group it does so for all members.
-- Locks: the topic's row, or the subscription's rows; for a broadcast group, so that no member
-- joins meanwhile. Each up to the setting lock_timeout.
-- Cost: one update.
create function mqpg._set_paused(topic text, consumer_group text, paused boolean) returns void
language plpgsql as $$
declare
    v_topic mqpg.topic := mqpg._topic(_set_paused.topic);
    v_group mqpg.subscription;
    v_timeout text := mqpg._apply_lock_timeout();
begin
    if _set_paused.consumer_group is null then
        update mqpg.topic t set paused = _set_paused.paused where t.topic_id = v_topic.topic_id;
        if not found then
            raise exception using errcode = 'MQ003', message = format('topic %L was dropped meanwhile', _set_paused.topic);
        end if;
    else
        v_group := mqpg._subscription(_set_paused.consumer_group, _set_paused.topic);
        perform mqpg._lock_group(v_group);
        update mqpg.subscription s set paused = _set_paused.paused
        where v_group.subscription_id in (s.subscription_id, s.member_of);
        if not found then
            raise exception using errcode = 'MQ005', message = format(
                'consumer group %L was unsubscribed meanwhile', _set_paused.consumer_group);
        end if;
    end if;
    perform set_config('lock_timeout', v_timeout, true);
end
$$;
