-- Stops delivery of a topic, or of one subscription to it: receive() returns nothing until resume(). Sends go on, what
-- was handed out can be settled, fetch() (a pure read) goes on. A topic and its subscriptions are paused each for
-- themselves. Repeated it changes nothing.
-- Locks: the row, a broadcast group's as _lock_group. Cost: one update. Errors: MQ001, MQ002, MQ003, MQ005, 55P03.
create function mqpg.pause(topic text, consumer_group text default null) returns void
language sql as $$
    select mqpg._set_paused(pause.topic, pause.consumer_group, true)
$$;
comment on function mqpg.pause(text, text) is 'Stop delivery of a topic or of one subscription';
