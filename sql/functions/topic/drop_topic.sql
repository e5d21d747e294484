-- Drops a topic with its subscriptions. Without force it refuses (MQ012) while a message is undelivered or
-- a half undecided. What is stored goes with its segments; the name used again starts at offset 0.
-- Senders take no lock on the topic, so a message whose transaction is open meanwhile is stored for nothing: the view
-- orphans shows it.
-- Locks: the topic's row. Cost: a look at each queue, at undecided halves and what is delayed. Errors: MQ003, MQ012.
create function mqpg.drop_topic(topic text, force boolean default false) returns void
language plpgsql as $$
declare
    v_topic mqpg.topic := mqpg._topic(drop_topic.topic);
    v_tick mqpg.tick;
begin
    perform from mqpg.topic t where t.topic_id = v_topic.topic_id for update;
    if not coalesce(drop_topic.force, false) then
        if exists (select from mqpg.subscription_lag l where l.topic = v_topic.name and l.lag > 0) then
            raise exception using errcode = 'MQ012',
                message = format('topic %L has undelivered messages', v_topic.name),
                hint = 'force => true drops them.';
        end if;
        if exists (select from mqpg.half_pending h where h.topic = v_topic.name)
            or exists (select from mqpg.half_parked h where h.topic = v_topic.name) then
            raise exception using errcode = 'MQ012',
                message = format('topic %L has undecided half messages', v_topic.name),
                hint = 'force => true drops them.';
        end if;
        select k.* into v_tick from mqpg.tick k order by k.tick_id desc limit 1;
        if exists (
            select from mqpg.commit_log l
            where l.topic_id = v_topic.topic_id and l.kind = 'n' and l.batch_id > v_tick.floor_id
                and not pg_visible_in_snapshot(l.xid, v_tick.snapshot)
        ) or exists (
            select from mqpg.op_log o
            where o.topic_id = v_topic.topic_id and o.op = 'c' and o.visible_at is null
                and o.xid >= pg_snapshot_xmin(v_tick.snapshot) and not pg_visible_in_snapshot(o.xid, v_tick.snapshot)
        ) or exists (
            select from mqpg.delayed d
            where d.topic_id = v_topic.topic_id
                and (d.visible_at > v_tick.due_until or not pg_visible_in_snapshot(d.xid, v_tick.snapshot))
                and (d.subscription_id = 0 or exists (
                    select from mqpg.subscription s where s.subscription_id = d.subscription_id))
        ) then
            raise exception using errcode = 'MQ012',
                message = format('topic %L has messages that are not appended or not due yet', v_topic.name),
                hint = 'force => true drops them.';
        end if;
    end if;
    delete from mqpg.topic t where t.topic_id = v_topic.topic_id;
    insert into mqpg.dropped_topic (topic_id, name, forced)
    values (v_topic.topic_id, v_topic.name, coalesce(drop_topic.force, false));
end
$$;
comment on function mqpg.drop_topic(text, boolean) is
    'Drop a topic; refuses while something is undelivered or undecided unless forced';
