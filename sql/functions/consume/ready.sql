-- The topics of a consumer group that got something after a tick, each with its newest tick. It is
-- for clients with many topics: they call it with the greatest tick that they know and receive only
-- from the topics that it names.
-- It does not report what comes back without a tick, such as leases that ran out and released or
-- unpinned messages. It may name a topic that only got a retry of another group, and it names
-- paused topics too.
-- Arguments:
--   consumer_group: name of the group.
--   after_tick: the greatest tick that the caller knows; default 0.
-- Locks: none.
-- Cost: two index lookups when nothing is new; else the ticks since after_tick, or, where there are
-- more than 10000, each queue of each topic. It never scans sequentially, even with a plan that was
-- made for few subscriptions.
-- Errors: MQ001 (argument), MQ002 (name), MQ005 (the group has no subscription).
create function mqpg.ready(consumer_group text, after_tick bigint default 0) returns table (topic text, tick bigint)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off as $$
declare
    v_mine int [];    -- those that the caller may receive; null: all
    v_newest bigint := (select max(t.tick_id) from mqpg.tick t);
begin
    perform mqpg._require_name('consumer_group', ready.consumer_group);
    perform mqpg._require_range('after_tick', ready.after_tick, 0, 9223372036854775807);
    if not mqpg._is_owner() then
        select array_agg(s.subscription_id) into v_mine
        from mqpg.subscription s
        where s.consumer_group = ready.consumer_group and s.member = ''
            and (mqpg._is_among(s.receivers) or mqpg._has_right('receive', s.subscription_id));
        if v_mine is null and not exists (
            select from mqpg.role_right r
            where r.privilege = 'receive' and r.subscription_id is null and r.topic_id is null
                and (r.consumer_group = ready.consumer_group or r.consumer_group is null)
                and pg_has_role(mqpg._caller(), r.role, 'usage')) then
            perform mqpg._refuse(format('may not receive for consumer group %L', ready.consumer_group),
                'grant_receive', jsonb_build_object('consumer_group', ready.consumer_group, 'topic', null));
        end if;
    end if;
    if not exists (select from mqpg.subscription s where s.consumer_group = ready.consumer_group) then
        raise exception using errcode = 'MQ005', message = format(
            'consumer group %L has no subscription', ready.consumer_group),
            detail = mqpg._remedy('subscribe', jsonb_build_object(
                'consumer_group', ready.consumer_group, 'topic', null))::text,
            hint = 'subscribe() creates one.';
    end if;
    if v_newest <= ready.after_tick then
        return;
    end if;
    if exists (select from mqpg.tick t where t.tick_id > ready.after_tick order by t.tick_id offset 10000 limit 1) then
        return query
        select t.name, k.tick_id
        from mqpg.subscription s
        join mqpg.topic t on t.topic_id = s.topic_id
        cross join lateral (select max(q.tick_id) as tick_id from generate_series(-1, t.queues - 1) as i(queue_id)
            cross join lateral (
                select case i.queue_id when -1 then m.subscription_id else 0 end as lane_of from mqpg.subscription m
                where m.subscription_id = s.subscription_id or (i.queue_id = -1 and m.member_of = s.subscription_id)
            ) as l
            cross join lateral (
                select c.tick_id from mqpg.consume_queue c
                where c.topic_id = t.topic_id and c.queue_id = i.queue_id and c.subscription_id = l.lane_of
                order by c.base_offset desc limit 1) as q) as k
        where s.consumer_group = ready.consumer_group and s.member = '' and k.tick_id > ready.after_tick
            and (v_mine is null or s.subscription_id = any(v_mine))
        order by k.tick_id, t.name;
        return;
    end if;
    return query
    select t.name, k.tick_id
    from (
        select u.topic_id, max(n.tick_id) as tick_id
        from mqpg.tick n cross join lateral unnest(n.topic_ids) as u(topic_id)
        where n.tick_id > ready.after_tick
        group by u.topic_id
    ) as k
    join mqpg.subscription s on s.topic_id = k.topic_id
    join mqpg.topic t on t.topic_id = k.topic_id
    where s.consumer_group = ready.consumer_group and s.member = ''
        and (v_mine is null or s.subscription_id = any(v_mine))
    order by k.tick_id, t.name;
end
$$;
