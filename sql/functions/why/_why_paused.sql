-- Whether a topic or a subscription is paused.
-- Locks: none. Cost: negligible.
create function mqpg._why_paused(subscription mqpg.subscription, topic mqpg.topic)
returns table (cause text, detail jsonb, remedy jsonb)
language plpgsql stable as $$
begin
    if (_why_paused.topic).paused then
        cause := 'topic_paused';
        detail := jsonb_build_object('topic', (_why_paused.topic).name,
            'consumer_group', (_why_paused.subscription).consumer_group);
        remedy := mqpg._remedy('resume', jsonb_build_object('topic', (_why_paused.topic).name));
        return next;
    end if;
    if (_why_paused.subscription).paused then
        cause := 'group_paused';
        detail := jsonb_build_object('topic', (_why_paused.topic).name,
            'consumer_group', (_why_paused.subscription).consumer_group);
        remedy := mqpg._remedy('resume', detail);
        return next;
    end if;
end
$$;
