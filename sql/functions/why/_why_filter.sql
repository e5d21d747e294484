-- Whether the filter of a subscription has chosen nothing lately: among the newest 20 versions of
-- the cursor of each queue there is no delivery, and at least one that skipped messages. A caller
-- who may read the topic learns what the filter finds in the newest message that it skipped.
-- Locks: none. Cost: 20 cursor versions for each queue, of at most 100 queues; where it chooses
-- nothing, that of _skipped_lately() and one message.
create function mqpg._why_filter(subscription mqpg.subscription, topic mqpg.topic)
returns table (cause text, detail jsonb, remedy text)
language sql stable as $$
    select 'filter_chooses_nothing', jsonb_strip_nulls(jsonb_build_object(
            'consumer_group', (_why_filter.subscription).consumer_group,
            'filter', (_why_filter.subscription).filter::text, 'tags', to_jsonb((_why_filter.subscription).tags),
            'last_skipped_at', v.skipped_at, 'first_skipped_at', case when k.all_skipped then k.since end,
            'skipped', case when k.all_skipped then k.messages end,
            'skipped_from', case when k.queues <> '{}' then jsonb_object(k.queues::text [], k.offsets::text []) end))
        || m.misses,
        format('Every message that came lately was skipped%s.%s If that is not meant, change it: select '
            'mqpg.alter_subscription(%L, %L, %s);%s', case
                when k.since is null then ''
                when k.all_skipped
                    then format(': %s message%s, the first at %s (server time, %s ago)', mqpg._number(k.messages),
                        case k.messages when 1 then '' else 's' end, date_trunc('second', k.since),
                        mqpg._duration(clock_timestamp() - k.since))
                else format('. The filter is as it is since %s (server time, %s ago), and %s message%s came since then',
                    date_trunc('second', k.filter_from), mqpg._duration(clock_timestamp() - k.filter_from),
                    mqpg._number(k.messages), case k.messages when 1 then '' else 's' end)
            end, (
                select format(' The newest one has %s, but nothing at %s.', (
                        select string_agg(f.name, ', ') from jsonb_array_elements_text(m.misses -> 'fields') as f(name)),
                    string_agg(e.key, ', ' order by e.key))
                from jsonb_each(m.misses -> 'values') as e
                where e.value = '[]'
                having count(*) > 0 and m.misses -> 'fields' <> '[]'),
            (_why_filter.subscription).consumer_group, (_why_filter.topic).name,
            mqpg._filter_arguments(_why_filter.subscription), (
                select ' To get the skipped ones after that: ' || string_agg(mqpg._seek_statement(
                        _why_filter.subscription, _why_filter.topic, q.start::text, q.queue_id), ' ' order by q.queue_id)
                    || case
                        when cardinality(k.queues) > 10 then ' And so on: the detail has the offsets of all queues.'
                        else ''
                    end
                from unnest(k.queues[:10], k.offsets[:10]) as q(queue_id, start)
                having count(*) > 0))
    from (
        select max(c.at) filter (where c.action = 'f') as skipped_at,
            bool_or(c.action in ('r', 'b', 't', 'a', 'n')) as delivered,
            (array_agg(q.queue_id order by c.at desc) filter (where c.action = 'f'))[1] as queue_id,
            (array_agg(c.committed order by c.at desc) filter (where c.action = 'f'))[1] as committed
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
