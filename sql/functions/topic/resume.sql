-- Goes on with the delivery of a topic, or of one subscription to it, that pause() stopped. Repeated it changes
-- nothing.
-- Locks: the row, a broadcast group's as _lock_group. Cost: one update. Errors: MQ001, MQ002, MQ003, MQ005, 55P03.
create function mqpg.resume(topic text, consumer_group text default null) returns void
language sql as $$
    select mqpg._set_paused(resume.topic, resume.consumer_group, false)
$$;
comment on function mqpg.resume(text, text) is 'Go on with the delivery of a topic or of one subscription';
