-- Makes a topic. In one of kind 'relay' PREPARE, COMMIT and ROLLBACK of a half travel to the consumers as messages,
-- and their inboxes hold back what is undecided (protocol T4). Repeated with equal arguments it changes nothing,
-- with others it raises MQ011.
-- Locks: the new row. Cost: one insert. Errors: MQ001, MQ002, MQ011.
create function mqpg.create_topic(
    topic text, queues int default 8, retention interval default '7 days', kind text default 'normal'
) returns void
language plpgsql as $$
declare
    v_topic mqpg.topic;
begin
    perform mqpg._require_name('topic', create_topic.topic);
    perform mqpg._require_range('queues', create_topic.queues, 1, 1000);
    perform mqpg._require_interval('retention', create_topic.retention, '1 minute');
    perform mqpg._require_one_of('kind', create_topic.kind, array['normal', 'relay']);
    insert into mqpg.topic (name, queues, retention, kind)
    values (create_topic.topic, create_topic.queues, create_topic.retention, create_topic.kind)
    on conflict (name) do nothing;
    if found then
        return;
    end if;
    v_topic := mqpg._topic(create_topic.topic);
    if (v_topic.queues, v_topic.retention, v_topic.kind)
        is distinct from (create_topic.queues, create_topic.retention, create_topic.kind) then
        raise exception using errcode = 'MQ011', message = format(
            'topic %L exists with queues = %s, retention = %s, kind = %s', v_topic.name, v_topic.queues,
            v_topic.retention, v_topic.kind), hint = 'alter_topic() changes a topic.';
    end if;
end
$$;
comment on function mqpg.create_topic(text, int, interval, text) is 'Make a topic with ordered queues; idempotent';
