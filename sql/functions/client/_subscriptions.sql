-- The subscriptions of a topic, or of all topics (null), for `mqpg subscription list`.
-- Locks: none. Cost: one row for each subscription.
create function mqpg._subscriptions(topic text) returns table (
    consumer_group text, topic_name text, mode text, on_failure text, filter text, tags text [], max_attempts int,
    retry_delay text, paused boolean, start text
)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
begin
    perform mqpg._require_privilege('operator', 'auditor');
    return query
    select s.consumer_group, t.name, s.mode, s.on_failure, s.filter::text, s.tags, s.max_attempts,
        s.retry_delay::text, s.paused or t.paused, s.start
    from mqpg.subscription s
    join mqpg.topic t on t.topic_id = s.topic_id
    where s.member = '' and t.name = coalesce(_subscriptions.topic, t.name)
    order by s.consumer_group, t.name;
end
$$;
