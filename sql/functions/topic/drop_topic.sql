-- Drops a topic and its subscriptions. The stored messages disappear with their segments. A topic
-- created later under the same name starts at offset 0. Senders take no lock on the topic: a
-- message whose transaction is open during the drop is stored but never delivered, and the view
-- orphans shows it.
-- Arguments:
--   topic: name of the topic.
--   force: true drops the topic with all that is left in it; default false: raises while a message
--       is undelivered to a subscribed group (also to a broadcast group that nobody has joined
--       yet), delayed, or stored in a topic that no group reads, and while a half message is
--       undecided.
-- Locks: the rows of the topic and its subscriptions, waited for up to the setting lock_timeout.
-- Cost: one look at each queue, at the undecided half messages and at delayed messages.
-- Errors: MQ001 (null), MQ003 (unknown topic), MQ012 (messages would be lost), 55P03.
create function mqpg.drop_topic(topic text, force boolean default false) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_checked boolean := mqpg._require_privilege('operator');
    v_topic mqpg.topic := mqpg._topic(drop_topic.topic);
    v_tick mqpg.tick;
    v_left text;    -- what would be lost
    v_timeout text;
begin
    if drop_topic.force is null then
        raise exception using errcode = 'MQ001', message = 'force must be true or false, not null';
    end if;
    v_timeout := mqpg._apply_lock_timeout();
    perform from mqpg.topic t where t.topic_id = v_topic.topic_id for update;
    if not found then
        raise exception using errcode = 'MQ003', message = format('topic %L was dropped meanwhile', drop_topic.topic);
    end if;
    if not drop_topic.force then
        select k.* into v_tick from mqpg.tick k order by k.tick_id desc limit 1;
        v_left := case
            when exists (select from mqpg.subscription_lag l where l.topic = v_topic.name and l.lag > 0)
                or mqpg._awaits_members(v_topic) then 'undelivered messages'
            when not exists (select from mqpg.subscription s where s.topic_id = v_topic.topic_id) and exists (
                select from mqpg.queue_depth q where q.topic = v_topic.name and q.next_offset > q.oldest_offset)
                then 'messages, and no consumer group reads it'
            when exists (select from mqpg.half_pending h where h.topic = v_topic.name)
                or exists (select from mqpg.half_parked h where h.topic = v_topic.name) then 'undecided half messages'
            when exists (
                select from mqpg.commit_log l
                where l.topic_id = v_topic.topic_id and l.kind = 'n' and l.batch_id > v_tick.floor_id
                    and not pg_visible_in_snapshot(l.xid, v_tick.snapshot)
            ) or exists (
                select from mqpg.op_log o
                where o.topic_id = v_topic.topic_id and o.op = 'c' and o.visible_at is null
                    and o.xid >= pg_snapshot_xmin(v_tick.snapshot)
                    and not pg_visible_in_snapshot(o.xid, v_tick.snapshot)
            ) or exists (
                select from mqpg.delayed d
                where d.topic_id = v_topic.topic_id
                    and (d.visible_at > v_tick.due_until or not pg_visible_in_snapshot(d.xid, v_tick.snapshot))
                    and case d.subscription_id
                        when 0 then exists (    -- one that is not recalled
                            select from generate_series(d.first_id, d.first_id + d.n - 1) as m(id)
                            where not exists (
                                select from mqpg.op_log o where o.message_id = m.id and o.stage = 1 and o.op = 'r'))
                        else exists (           -- a retry that is not purged
                            select from mqpg.subscription s
                            where s.subscription_id = d.subscription_id and s.retries_from <= d.written_at)
                    end
            ) then 'messages that are delayed or not visible yet'
        end;
        if v_left is not null then
            raise exception using errcode = 'MQ012', message = format('topic %L has %s', v_topic.name, v_left),
                detail = mqpg._remedy(
                    'drop_topic', jsonb_build_object('topic', v_topic.name, 'force', true))::text,
                hint = 'Call drop_topic() with force => true to drop the topic with them.';
        end if;
    end if;
    delete from mqpg.topic t where t.topic_id = v_topic.topic_id;
    perform set_config('lock_timeout', v_timeout, true);
    insert into mqpg.dropped_topic (topic_id, name, forced)
    values (v_topic.topic_id, v_topic.name, drop_topic.force);
end
$$;
