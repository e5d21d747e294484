-- Goes on with the delivery of a topic, or of one subscription to it, that pause() stopped. Repeated it changes
-- nothing.
-- Locks: the row. Cost: one update. Errors: MQ001, MQ002, MQ003, MQ005.
create function mqpg.resume(topic text, consumer_group text default null) returns void
language plpgsql as $$
declare
    v_topic mqpg.topic := mqpg._topic(resume.topic);
    v_group mqpg.subscription;
begin
    if resume.consumer_group is null then
        update mqpg.topic t set paused = false where t.topic_id = v_topic.topic_id;
        return;
    end if;
    v_group := mqpg._subscription(resume.consumer_group, resume.topic);
    update mqpg.subscription s set paused = false
    where v_group.subscription_id in (s.subscription_id, s.member_of);
end
$$;
comment on function mqpg.resume(text, text) is 'Go on with the delivery of a topic or of one subscription';
