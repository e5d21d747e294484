-- Creates a topic. Repeated with equal arguments it changes nothing.
-- Arguments:
--   topic: name of the topic.
--   queues: number of ordered queues, 1 to 1000; default 8. Messages with equal keys go to the same
--       queue. alter_topic() can add queues.
--   retention: how long messages stay readable, at least 1 minute; default 7 days.
--   kind: 'normal' (default), or 'relay': PREPARE, COMMIT and ROLLBACK of a half message travel to
--       the consumers as messages, and each consumer's inbox holds back what is undecided (protocol
--       T4).
-- Locks: the new row.
-- Cost: one insert.
-- Errors: MQ001 (argument), MQ002 (name), MQ011 (the topic exists with other arguments).
--
-- Example:
--     select mqpg.create_topic('orders', queues => 16);
create function mqpg.create_topic(
    topic text, queues int default 8, retention interval default '7 days', kind text default 'normal'
) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_checked boolean := mqpg._require_privilege('operator');
    v_topic mqpg.topic;
    v_fixed text [];    -- why alter_topic() cannot help, and what can
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
        v_fixed := case
            when v_topic.kind <> create_topic.kind then array['The kind of a topic cannot change.', 'Use another name.']
            when create_topic.queues < v_topic.queues or create_topic.queues % v_topic.queues <> 0
                then array['The number of queues can only become a multiple of itself.', 'Repeat the present number.']
        end;
        raise exception using errcode = 'MQ011', message = format(
            'topic %L exists with queues = %s, retention = %s, kind = %s', v_topic.name, v_topic.queues,
            v_topic.retention, v_topic.kind),
            detail = coalesce(
                v_fixed[1], mqpg._remedy('alter_topic', jsonb_build_object('topic', v_topic.name))::text),
            hint = coalesce(v_fixed[2], 'Call alter_topic() to change it.');
    end if;
end
$$;
