-- Resumes the delivery that pause() stopped. Repeating the call changes nothing.
-- Arguments:
--   topic: name of the topic.
--   consumer_group: name of the group whose subscription is resumed; null (default) resumes the
--       topic. It does not resume subscriptions that were paused by name.
-- Locks, cost, errors: as of pause().
create function mqpg.resume(topic text, consumer_group text default null) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    perform mqpg._require_privilege('operator');
    perform mqpg._set_paused(resume.topic, resume.consumer_group, false);
end
$$;
