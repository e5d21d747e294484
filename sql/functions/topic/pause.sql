-- Stops delivery of a topic, or of one subscription to it: receive() returns nothing until resume(). Sends go on, what
-- was handed out can be settled, fetch() (a pure read) goes on. A topic and its subscriptions are paused each for
-- themselves. Repeated it changes nothing.
-- Locks: the row. Cost: one update. Errors: MQ001, MQ002, MQ003, MQ005.
create function mqpg.pause(topic text, consumer_group text default null) returns void
language plpgsql as $$
declare
    v_topic mqpg.topic := mqpg._topic(pause.topic);
    v_group mqpg.subscription;
begin
    if pause.consumer_group is null then
        update mqpg.topic t set paused = true where t.topic_id = v_topic.topic_id;
        return;
    end if;
    v_group := mqpg._subscription(pause.consumer_group, pause.topic);
    update mqpg.subscription s set paused = true
    where v_group.subscription_id in (s.subscription_id, s.member_of);
end
$$;
comment on function mqpg.pause(text, text) is 'Stop delivery of a topic or of one subscription';
