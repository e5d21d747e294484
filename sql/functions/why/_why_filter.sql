-- Whether the filter of a subscription has chosen nothing lately: among the newest 20 versions of
-- the cursor of each queue there is no delivery, and at least one that skipped messages.
-- Locks: none. Cost: 20 cursor versions for each queue, of at most 100 queues.
create function mqpg._why_filter(subscription mqpg.subscription, topic mqpg.topic)
returns table (cause text, detail jsonb, remedy text)
language sql stable as $$
    select 'filter_chooses_nothing', jsonb_strip_nulls(jsonb_build_object(
            'consumer_group', (_why_filter.subscription).consumer_group,
            'filter', (_why_filter.subscription).filter::text, 'tags', to_jsonb((_why_filter.subscription).tags),
            'last_skipped_at', v.skipped_at)),
        format('Every message that came lately was skipped. If that is not meant: select mqpg.alter_subscription('
            '%1$L, %2$L, filter => ''...'', tags => ''{...}''); and to get the skipped ones, mqpg.seek(%1$L, %2$L, '
            '...) back to when it began.', (_why_filter.subscription).consumer_group, (_why_filter.topic).name)
    from (
        select max(c.at) filter (where c.action = 'f') as skipped_at,
            bool_or(c.action in ('r', 'b', 't', 'a', 'n')) as delivered
        from generate_series(0, least((_why_filter.topic).queues, 100) - 1) as q(queue_id)
        cross join lateral (
            select k.at, k.action from mqpg.cursor k
            where k.subscription_id = (_why_filter.subscription).subscription_id and k.queue_id = q.queue_id
            order by k.version desc limit 20
        ) as c
    ) as v
    where v.skipped_at is not null and not v.delivered
$$;
comment on function mqpg._why_filter(mqpg.subscription, mqpg.topic) is
    'Internal: whether a filter has chosen nothing lately';
