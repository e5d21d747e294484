-- The call that changes the filter and the tags of a subscription, as far as it has them. The caller
-- chooses the new ones. Null without both.
-- Locks: none. Cost: negligible.
create function mqpg._filter_remedy(subscription mqpg.subscription, topic mqpg.topic) returns jsonb
language sql immutable as $$
    select mqpg._remedy('alter_subscription', jsonb_build_object(
            'consumer_group', (_filter_remedy.subscription).consumer_group, 'topic', (_filter_remedy.topic).name)
        || case when (_filter_remedy.subscription).filter is not null then '{"filter": null}' else '{}' end::jsonb
        || case when (_filter_remedy.subscription).tags is not null then '{"tags": null}' else '{}' end::jsonb)
    where (_filter_remedy.subscription).filter is not null or (_filter_remedy.subscription).tags is not null
$$;
