-- Which of these messages are dead letters of the group.
-- Locks: none. Cost: one index lookup for each message.
create function mqpg._dead_among(consumer_group text, topic text, message_ids bigint []) returns setof bigint
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
begin
    perform mqpg._require_subscription(_dead_among.consumer_group, _dead_among.topic);
    return query
    select d.message_id
    from mqpg.dead_letter d
    join mqpg.subscription s on s.subscription_id = d.subscription_id
    join mqpg.topic t on t.topic_id = s.topic_id
    where s.consumer_group = _dead_among.consumer_group and t.name = _dead_among.topic
        and d.message_id = any(_dead_among.message_ids);
end
$$;
