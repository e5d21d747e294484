-- How far a group has come on each queue of a topic: one row for each queue and, in mode broadcast,
-- for each member. It is what the views say, and what functions ask that consumers call.
-- Locks: none. Cost: two index lookups per partition for each queue of each subscription.
create function mqpg._subscription_lag(only_group text, only_topic text) returns table (
    consumer_group text, topic text, queue_id int, committed bigint, next_offset bigint,
    lag bigint, claims int, owner text, mode text, changed_at timestamptz, subscription_id int, topic_id int
)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
begin
    -- Consumers ask for their own subscription.
    if not mqpg._has_privilege('operator', 'auditor', 'worker') then
        perform mqpg._require_subscription(_subscription_lag.only_group, _subscription_lag.only_topic);
    end if;
    return query
    select s.consumer_group, t.name, q.queue_id, c.committed, n.next_offset, n.next_offset - c.committed, p.claims,
        coalesce(c.owner, nullif(s.member, '')), s.mode, c.at, s.subscription_id, s.topic_id
    from mqpg.subscription as s
    inner join mqpg.topic as t on s.topic_id = t.topic_id
    cross join lateral generate_series(-1, t.queues - 1) as q (queue_id)
    cross join lateral mqpg._newest_cursor(s.subscription_id, q.queue_id) as c
    cross join lateral (
        select count(*)::int as claims from unnest(c.claims) as u where u.epoch > 0
    ) as p
    cross join lateral mqpg._tail(
        s.topic_id, q.queue_id, case when q.queue_id = -1 then s.subscription_id else 0 end
    ) as n (next_offset)
    where (s.mode <> 'broadcast' or s.member <> '')
        and s.consumer_group = _subscription_lag.only_group and t.name = _subscription_lag.only_topic;
end
$$;
