-- What holds a stored message up: its decision, its offset, or, with `groups`, each consumer group.
-- Locks: none. Cost: a few index lookups, and those of _why_group_lacks() for each group of the topic.
create function mqpg._why_message(message_id bigint, groups boolean)
returns table (cause text, detail jsonb, remedy jsonb)
language plpgsql stable as $$
declare
    v_message record;
    v_place record;
    v_topic mqpg.topic;
    v_subscription mqpg.subscription;
    v_op mqpg.op_log;
    v_due timestamptz;
begin
    select m.* into v_message from mqpg._message(_why_message.message_id) m;
    select t.* into v_topic from mqpg.topic t where t.topic_id = v_message.topic_id;
    if not found then
        cause := 'topic_dropped';
        detail := (
            select jsonb_build_object('topic', d.name, 'dropped_at', d.dropped_at)
            from mqpg.dropped_topic d where d.topic_id = v_message.topic_id);
        return next;
        return;
    end if;
    select p.* into v_place
    from mqpg._message_state(
        _why_message.message_id, v_message.topic_id, v_message.queue_id, v_message.kind, v_message.xid) p;
    select o.* into v_op from mqpg.op_log o
    where o.message_id = _why_message.message_id and o.stage = case v_place.state when 'recalled' then 1 else 0 end;
    detail := jsonb_strip_nulls(jsonb_build_object('at', v_op.at, 'by', v_op.decided_by, 'reason', v_op.reason));
    case v_place.state
        when 'prepared' then
            return query select u.* from mqpg._why_undecided(_why_message.message_id) u;
        when 'rolled_back' then
            cause := 'half_rolled_back';
            return next;
        when 'recalled' then
            cause := 'recalled';
            return next;
        when 'relayed' then
            return query select w.* from mqpg._why_message(v_op.deliver_id, _why_message.groups) w;
        when 'delayed' then
            select max(d.visible_at) into v_due from mqpg.delayed d
            where d.first_id between _why_message.message_id - 1023 and _why_message.message_id
                and d.first_id + d.n > _why_message.message_id and d.subscription_id = 0;
            if v_due > clock_timestamp() then
                cause := 'delayed';
                detail := jsonb_build_object('until', v_due);
                return next;
            else
                return query select n.* from mqpg._why_not_appended() n;
            end if;
        when 'appended' then
            if not _why_message.groups then
                return;
            end if;
            if not exists (select from mqpg.subscription s where s.topic_id = v_topic.topic_id) then
                return query select n.* from mqpg._why_nobody(v_topic.name) n;
                return;
            end if;
            for v_subscription in
                select s.* from mqpg.subscription s where s.topic_id = v_topic.topic_id
                order by s.consumer_group, s.member
            loop
                if v_subscription.mode <> 'broadcast' or v_subscription.member <> '' then
                    return query
                    select g.* from mqpg._why_group_lacks(v_subscription, v_topic, _why_message.message_id,
                        v_place.body_id,
                        v_place.queue_offset) g;
                else
                    return query select n.* from mqpg._why_no_member(v_subscription, v_topic) n;
                end if;
            end loop;
        else
            return query select n.* from mqpg._why_not_appended() n;
            if _why_message.groups and not exists (
                select from mqpg.subscription s where s.topic_id = v_topic.topic_id) then
                return query select n.* from mqpg._why_nobody(v_topic.name) n;
            end if;
    end case;
end
$$;
