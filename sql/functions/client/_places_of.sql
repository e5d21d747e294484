-- Where messages are in their topic's queues, for a consumer with its own database that finds one
-- in the retry lane and does not know it. queue_offset is null if the rows were dropped. unread:
-- the message expired before its first delivery and was then redriven, so nobody has handled it.
-- Locks: none. Cost: that of _message_state() for each message.
-- Errors: MQ003 (unknown topic), MQ005 (unknown subscription).
create function mqpg._places_of(consumer_group text, topic text, message_ids bigint [])
returns table (message_id bigint, queue_id int, queue_offset bigint, unread boolean)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_subscription mqpg.subscription := mqpg._require_subscription(_places_of.consumer_group, _places_of.topic);
begin
    return query
    select u.id, m.queue_id::int, s.queue_offset, coalesce(f.unread, false)
    from unnest(_places_of.message_ids) as u(id)
    cross join lateral mqpg._message(u.id) as m
    cross join lateral mqpg._message_state(u.id, m.topic_id, m.queue_id, m.kind, m.xid) as s
    cross join lateral (
        select bool_and(d.attempts = 0) as unread from mqpg.former_dead_letter d
        where d.subscription_id = v_subscription.subscription_id and d.message_id = u.id
    ) as f
    where m.topic_id = v_subscription.topic_id;
end
$$;
