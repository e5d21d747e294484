-- For how many seconds the broker has had the oldest rows of a topic's queues and of the group's retry
-- lanes. What was delivered before is in no queue any more. Null if that is not known.
-- Locks: none. Cost: an index lookup for each queue and retry lane.
create function mqpg._queues_age(consumer_group text, topic text) returns float8
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_group mqpg.subscription := mqpg._require_subscription(_queues_age.consumer_group, _queues_age.topic);
    v_tick bigint;
begin
    select min((
        select c.tick_id from mqpg.consume_queue c
        where c.topic_id = v_group.topic_id and c.queue_id = q.queue_id and c.subscription_id = q.lane_of
        order by c.base_offset, c.tick_id limit 1)) into v_tick
    from (
        select i as queue_id, 0 as lane_of
        from mqpg.topic t cross join generate_series(0, t.queues - 1) as i
        where t.topic_id = v_group.topic_id
        union all
        select -1, s.subscription_id from mqpg.subscription s
        where s.topic_id = v_group.topic_id and s.consumer_group = v_group.consumer_group
    ) as q;
    if v_tick is null then
        return 0;
    end if;
    return date_part('epoch', clock_timestamp() - s.opened_at)
    from mqpg.segment s
    where s.family = 'tick' and v_tick >= s.lower_bound::bigint and v_tick < s.upper_bound::bigint;
end
$$;
