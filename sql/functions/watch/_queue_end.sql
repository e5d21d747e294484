-- The offset that the next message of a queue gets, for the views.
-- Locks: none. Cost: that of _tail(), and of the question for the right.
create function mqpg._queue_end(topic_id int, queue_id int, subscription_id int) returns bigint
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
begin
    perform mqpg._require_privilege('operator', 'auditor', 'worker');
    return mqpg._tail(_queue_end.topic_id, _queue_end.queue_id, _queue_end.subscription_id);
end
$$;
