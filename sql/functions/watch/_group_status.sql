-- What each consumer group has left to do in each topic.
-- Locks: none. Cost: that of _subscription_lag(), one index lookup for each queue with unread
-- messages, and up to 1,001 dead letters for each group.
create function mqpg._group_status() returns table (
    consumer_group text, topic text, mode text, paused boolean, lag bigint, claims bigint, oldest_unread_at timestamptz,
    dead_letters bigint, changed_at timestamptz
)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
begin
    perform mqpg._require_privilege('operator', 'auditor', 'worker');
    return query
    select s.consumer_group, t.name, s.mode, s.paused or t.paused, coalesce(q.lag, 0), coalesce(q.claims, 0),
        q.oldest_unread_at, d.n, q.changed_at
    from mqpg.subscription s
    join mqpg.topic t on t.topic_id = s.topic_id
    left join (
        select l.consumer_group, l.topic_id, sum(l.lag)::bigint as lag, sum(l.claims) as claims,
            min(o.at) as oldest_unread_at, max(l.changed_at) as changed_at
        from mqpg._subscription_lag() l
        left join lateral (
            select k.at
            from mqpg.consume_queue c
            join mqpg.tick k on k.tick_id = c.tick_id
            where l.lag > 0 and c.topic_id = l.topic_id and c.queue_id = l.queue_id and c.base_offset <= l.committed
                and c.subscription_id = case l.queue_id when -1 then l.subscription_id else 0 end
            order by c.base_offset desc
            limit 1
        ) o on true
        group by l.consumer_group, l.topic_id
    ) q on q.consumer_group = s.consumer_group and q.topic_id = s.topic_id
    cross join lateral (
        select count(*) as n from (
            select from mqpg.dead_letter e
            join mqpg.subscription m on m.subscription_id = e.subscription_id
            where m.topic_id = s.topic_id and m.consumer_group = s.consumer_group
            limit 1001
        ) as letter
    ) d
    where s.member = '';
end
$$;
