-- The groups with messages that failed at least twice and wait for another attempt, among the next
-- 1,000 delayed messages and retries. message_id, attempt and reason are of the one that failed
-- most often, and `until` is when it is delivered again.
-- Locks: none. Cost: up to 1,000 entries of an index.
create function mqpg._failing() returns table (
    consumer_group text, topic text, messages bigint, message_id bigint, attempt int, reason text, until timestamptz
)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
begin
    perform mqpg._require_privilege('operator', 'auditor', 'worker');
    return query
    select s.consumer_group, t.name, sum(d.n)::bigint, (array_agg(d.first_id order by d.attempt desc, d.first_id))[1],
        max(d.attempt)::int, (array_agg(d.reason order by d.attempt desc, d.first_id))[1],
        (array_agg(d.visible_at order by d.attempt desc, d.first_id))[1]
    from (
        select l.* from mqpg.delayed l
        where l.visible_at > clock_timestamp()
        order by l.visible_at limit 1000
    ) as d
    join mqpg.subscription s on s.subscription_id = d.subscription_id
    join mqpg.topic t on t.topic_id = s.topic_id
    where d.attempt > 2 and d.written_at >= s.retries_from
    group by s.consumer_group, t.name
    order by s.consumer_group, t.name;
end
$$;
