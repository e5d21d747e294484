-- Whether a topic or a subscription is paused.
-- Locks: none. Cost: negligible.
create function mqpg._why_paused(subscription mqpg.subscription, topic mqpg.topic)
returns table (cause text, detail jsonb, remedy jsonb)
language sql stable as $$
    with here as (
        select jsonb_build_object('topic', (_why_paused.topic).name,
            'consumer_group', (_why_paused.subscription).consumer_group) as detail
    )
    select 'topic_paused', h.detail, mqpg._remedy('resume', h.detail - 'consumer_group')
    from here h where (_why_paused.topic).paused
    union all
    select 'group_paused', h.detail, mqpg._remedy('resume', h.detail)
    from here h where (_why_paused.subscription).paused
$$;
