-- Drops a topic with its subscriptions. Without force it refuses (MQ012) while a message is undelivered or
-- a half undecided. What is stored goes with its segments; the name used again starts at offset 0.
-- Locks: the topic's row. Cost: a look at each queue, and at the topic's undecided halves. Errors: MQ003, MQ012.
create function mqpg.drop_topic(topic text, force boolean default false) returns void
language plpgsql as $$
declare
    v_topic mqpg.topic := mqpg._topic(drop_topic.topic);
begin
    perform from mqpg.topic t where t.topic_id = v_topic.topic_id for update;
    if not coalesce(drop_topic.force, false) then
        if exists (select from mqpg.subscription_lag l where l.topic = v_topic.name and l.lag > 0) then
            raise exception using errcode = 'MQ012',
                message = format('topic %L has undelivered messages', v_topic.name),
                hint = 'force => true drops them.';
        end if;
        if exists (select from mqpg.half_pending h where h.topic = v_topic.name) then
            raise exception using errcode = 'MQ012',
                message = format('topic %L has undecided half messages', v_topic.name),
                hint = 'force => true drops them.';
        end if;
        if exists (
            select from mqpg.commit_log l
            where l.topic_id = v_topic.topic_id and l.kind = 'n'
                and l.batch_id > (select k.floor_id from mqpg.tick k order by k.tick_id desc limit 1)
                and not pg_visible_in_snapshot(
                    l.xid, (select k.snapshot from mqpg.tick k order by k.tick_id desc limit 1))
        ) then
            raise exception using errcode = 'MQ012',
                message = format('topic %L has messages that are not appended yet', v_topic.name),
                hint = 'force => true drops them.';
        end if;
    end if;
    delete from mqpg.topic t where t.topic_id = v_topic.topic_id;
end
$$;
comment on function mqpg.drop_topic(text, boolean) is 'Drop a topic; refuses while something is undelivered or undecided unless forced';
