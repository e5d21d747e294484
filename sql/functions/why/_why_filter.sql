-- Whether the filter of a subscription has chosen nothing lately: among the newest 20 versions of
-- the cursor of each queue there is no delivery, and at least one that skipped messages. A caller
-- who may read the topic learns what the filter finds in the newest message that it skipped.
-- Locks: none. Cost: 20 cursor versions for each queue, of at most 100 queues; where it chooses
-- nothing, that of _skipped_lately() and one message.
create function mqpg._why_filter(subscription mqpg.subscription, topic mqpg.topic)
returns table (cause text, detail jsonb, remedy jsonb)
language sql stable as $$
    select 'filter_chooses_nothing', jsonb_strip_nulls(jsonb_build_object(
            'consumer_group', (_why_filter.subscription).consumer_group,
            'member', nullif((_why_filter.subscription).member, ''),
            'filter', (_why_filter.subscription).filter::text, 'tags', to_jsonb((_why_filter.subscription).tags),
            'last_skipped_at', v.skipped_at, 'first_skipped_at', case when k.all_skipped then k.since end,
            'skipped', case when k.all_skipped then k.messages end,
            'filter_from', case when not k.all_skipped then k.filter_from end,
            'messages', case when not k.all_skipped then k.messages end,
            'skipped_from', case when k.queues <> '{}' then jsonb_object(k.queues::text [], k.offsets::text []) end))
        || m.misses,
        mqpg._filter_remedy(_why_filter.subscription, _why_filter.topic)
    from (
        select max(c.at) filter (where c.action = mqpg._action('filtered')) as skipped_at,
            bool_or(c.action = any(mqpg._actions('receive', 'ack_and_receive', 'take_over', 'ack', 'nack'))) as delivered,
            (array_agg(q.queue_id order by c.at desc)
                filter (where c.action = mqpg._action('filtered')))[1] as queue_id,
            (array_agg(c.committed order by c.at desc)
                filter (where c.action = mqpg._action('filtered')))[1] as committed
        from generate_series(0, least((_why_filter.topic).queues, 100) - 1) as q(queue_id)
        cross join lateral (
            select k.at, k.action, k.committed from mqpg.cursor k
            where k.subscription_id = (_why_filter.subscription).subscription_id and k.queue_id = q.queue_id
            order by k.version desc limit 20
        ) as c
    ) as v
    cross join lateral mqpg._skipped_lately(_why_filter.subscription, _why_filter.topic) as k
    cross join lateral mqpg._filter_misses(_why_filter.subscription, v.queue_id, v.committed - 1) as m(misses)
    where v.skipped_at is not null and not v.delivered
$$;
