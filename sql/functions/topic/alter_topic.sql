-- Changes a topic's retention or payload limit; null leaves a value as it is. The number of queues is
-- fixed: another one would send a key to another queue while its older messages still wait in the first.
-- Locks: the topic's row. Cost: one update. Errors: MQ001, MQ003.
create function mqpg.alter_topic(topic text, retention interval default null, max_payload int default null)
returns void
language plpgsql as $$
declare
    v_topic mqpg.topic := mqpg._topic(alter_topic.topic);
begin
    if alter_topic.retention is not null then
        perform mqpg._interval('retention', alter_topic.retention, '1 minute');
    end if;
    if alter_topic.max_payload is not null then
        perform mqpg._check_range('max_payload', alter_topic.max_payload, 1, 268435456);
    end if;
    update mqpg.topic t set
        retention = coalesce(alter_topic.retention, t.retention),
        max_payload = coalesce(alter_topic.max_payload, t.max_payload)
    where t.topic_id = v_topic.topic_id;
end
$$;
comment on function mqpg.alter_topic(text, interval, int) is 'Change a topic''s retention or payload limit (bytes)';
