-- Whether a group has acknowledged a stored message; see acknowledged().
-- Locks: none. Cost: as for acknowledged().
-- Errors: MQ018 (the group never gets it).
create function mqpg._acknowledged(message_id bigint, consumer_group mqpg.subscription) returns boolean
language plpgsql stable as $$
declare
    v_message record;
    v_place record;
    v_topic mqpg.topic;
    v_member mqpg.subscription;
    v_why record;
    v_members int := 0;
begin
    select m.* into v_message from mqpg._message(_acknowledged.message_id) m;
    select p.* into v_place
    from mqpg._message_state(
        _acknowledged.message_id, v_message.topic_id, v_message.queue_id, v_message.kind, v_message.xid) p;
    if v_place.state = 'relayed' then
        return mqpg._acknowledged((
            select o.deliver_id from mqpg.op_log o where o.message_id = _acknowledged.message_id and o.stage = 0),
            _acknowledged.consumer_group);
    elsif v_place.state in ('rolled_back', 'recalled') then
        raise exception using errcode = 'MQ018', message = format('consumer group %L never gets message %s: %s',
            (_acknowledged.consumer_group).consumer_group, _acknowledged.message_id,
            replace(v_place.state, '_', ' '));
    elsif v_place.state <> 'appended' then
        return false;
    elsif v_place.queue_offset is null then
        raise exception using errcode = 'MQ018', message = format(
            'it is no longer known what became of message %s: its retention is over', _acknowledged.message_id);
    end if;
    select t.* into v_topic from mqpg.topic t where t.topic_id = v_message.topic_id;
    for v_member in
        select s.* from mqpg.subscription s
        where s.topic_id = (_acknowledged.consumer_group).topic_id
            and s.consumer_group = (_acknowledged.consumer_group).consumer_group
            and (s.mode <> 'broadcast' or s.member <> '')
    loop
        v_members := v_members + 1;
        select w.* into v_why
        from mqpg._why_group_lacks(v_member, v_topic, _acknowledged.message_id, v_place.body_id, v_place.queue_offset) w
        limit 1;
        if v_why.cause in ('filtered_out', 'skipped', 'discarded') then
            raise exception using errcode = 'MQ018', message = format('consumer group %L never gets message %s: %s',
                v_member.consumer_group, _acknowledged.message_id, replace(v_why.cause, '_', ' ')
                    || coalesce(' (' || (v_why.detail ->> 'why') || ')', ''));
        elsif v_why.cause is not null then
            return false;
        elsif mqpg._began_behind(v_member.subscription_id, v_message.queue_id, v_place.queue_offset) then
            raise exception using errcode = 'MQ018', message = format(
                'consumer group %L never gets message %s: it began behind it',
                v_member.consumer_group, _acknowledged.message_id);
        end if;
    end loop;
    return v_members > 0;
end
$$;
