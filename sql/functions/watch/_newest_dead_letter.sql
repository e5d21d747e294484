-- The newest dead letter of a group, of all members in mode broadcast: its message and why its last
-- attempt failed.
-- Locks: none. Cost: one index lookup for each member.
create function mqpg._newest_dead_letter(consumer_group text, topic text) returns table (
    message_id bigint, reason text
)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
begin
    perform mqpg._require_privilege('operator', 'auditor', 'worker');
    return query
    select d.message_id, d.reason
    from mqpg.topic t
    join mqpg.subscription s on s.topic_id = t.topic_id
    cross join lateral (
        select l.* from mqpg.dead_letter l
        where l.subscription_id = s.subscription_id
        order by l.died_at desc, l.message_id desc limit 1
    ) as d
    where t.name = _newest_dead_letter.topic and s.consumer_group = _newest_dead_letter.consumer_group
    order by d.died_at desc limit 1;
end
$$;
