-- What holds a group up in a topic.
-- Locks: none. Cost: as for why(consumer_group, topic).
create function mqpg._why_subscription(consumer_group text, topic mqpg.topic)
returns table (cause text, detail jsonb, remedy jsonb)
language plpgsql stable as $$
declare
    v_topic mqpg.topic := _why_subscription.topic;
    v_group mqpg.subscription;
    v_member mqpg.subscription;
    v_tick mqpg.tick;
begin
    select s.* into v_group from mqpg.subscription s
    where s.topic_id = v_topic.topic_id and s.consumer_group = _why_subscription.consumer_group and s.member = '';
    if not found then
        return query select n.* from mqpg._why_not_subscribed(_why_subscription.consumer_group, v_topic) n;
        return;
    end if;
    return query select p.* from mqpg._why_paused(v_group, v_topic) p;
    return query select n.* from mqpg._why_no_member(v_group, v_topic) n;
    select t.* into v_tick from mqpg.tick t order by t.tick_id desc limit 1;
    if (select n.sends or n.decisions or n.due
        from mqpg._what_is_new(v_tick, pg_current_snapshot(), clock_timestamp()) n)
    then
        return query select n.* from mqpg._why_not_appended() n where n.cause <> 'not_appended';
    end if;
    for v_member in
        select s.* from mqpg.subscription s
        where s.topic_id = v_topic.topic_id and s.consumer_group = _why_subscription.consumer_group
            and (s.mode <> 'broadcast' or s.member <> '')
        order by s.member
    loop
        return query select l.* from mqpg._why_behind(v_member, v_topic) l;
    end loop;
end
$$;
