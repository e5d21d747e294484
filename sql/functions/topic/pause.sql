-- Stops the delivery of a topic, or of one subscription to it: receive() returns nothing until
-- resume(). Producers can still send, consumers can still acknowledge what they received, and
-- fetch() still reads. A topic and its subscriptions are paused independently of each other.
-- Repeating the call changes nothing.
-- Arguments:
--   topic: name of the topic.
--   consumer_group: name of the group whose subscription is paused; null (default) pauses the topic
--       for all groups.
-- Locks: the topic's row, or the subscription's rows, up to the setting lock_timeout.
-- Cost: one update.
-- Errors: MQ001, MQ002 (name), MQ003 (unknown topic), MQ005 (unknown subscription), 55P03.
create function mqpg.pause(topic text, consumer_group text default null) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    perform mqpg._require_privilege('operator');
    perform mqpg._set_paused(pause.topic, pause.consumer_group, true);
end
$$;
