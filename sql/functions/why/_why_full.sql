-- What a queue of a shared subscription waits for that has as many open deliveries as it may have:
-- whose they are, since when, when their leases end, and what frees them.
-- Locks: none. Cost: linear in the claims; one index lookup, and one row for each worker.
create function mqpg._why_full(
    subscription mqpg.subscription, topic mqpg.topic, last_version mqpg.cursor, out detail jsonb, out remedy text
)
language plpgsql stable as $$
declare
    v_cursor mqpg.cursor := _why_full.last_version;
    v_group text := (_why_full.subscription).consumer_group;
    v_open record;
    v_since timestamptz;
    v_holders text;
    v_at_work text;
    v_again bigint := mqpg._acknowledged_ahead(v_cursor);
begin
    select count(*) as n, count(distinct coalesce(c.consumer, '')) as consumers, count(distinct c.consumer) as named,
        min(c.epoch) as epoch, min(c.lease_until) as first_until, max(c.lease_until) as last_until
    into v_open
    from unnest(v_cursor.claims) c where c.epoch > 0;
    -- An epoch is the version of the cursor at the delivery times 2^20, and something.
    select d.at into v_since from mqpg.cursor d
    where d.subscription_id = v_cursor.subscription_id and d.queue_id = v_cursor.queue_id
        and d.version = v_open.epoch / 1048576 and d.action in ('r', 'b', 't')
    limit 1;
    select string_agg(case h.place when 4 then 'others' else h.name end
            || case when v_open.consumers = 1 then '' else ' (' || h.n || ')' end, ', ' order by h.place)
    into v_holders
    from (
        select k.place, min(k.name) as name, sum(k.n) as n
        from (
            select coalesce('the consumer ' || c.consumer, 'a consumer without a name') as name, count(*) as n,
                least(row_number() over (order by count(*) desc, c.consumer), 4) as place
            from unnest(v_cursor.claims) c where c.epoch > 0
            group by c.consumer
        ) as k
        group by k.place
    ) as h;
    select string_agg(distinct w.detail ->> 'consumer', ', ') into v_at_work from mqpg.worker_status w
    where w.role = 'consumer' and w.alive and w.detail ->> 'topic' = (_why_full.topic).name
        and w.detail ->> 'consumer_group' = v_group
        and w.detail ->> 'consumer' in (select c.consumer from unnest(v_cursor.claims) c where c.epoch > 0);
    detail := jsonb_strip_nulls(jsonb_build_object('deliveries', v_open.n, 'delivered_at', v_since,
        'until', v_open.first_until, 'last_until', v_open.last_until, 'acknowledged_ahead', v_again,
        'consumers_at_work', v_at_work));
    remedy := format('%s is full: %s of 64 deliveries are open, %s%s%s. %s They have to be acknowledged, or returned '
        'with nack() or release(): look why that program does not. Otherwise the first lease ends %s%s, and other '
        'consumers get the messages. A restart does not end a lease. If the program is gone for good, this frees them '
        'at once: %s It delivers again from offset %s of the queue what is not acknowledged%s.',
        case v_cursor.queue_id when -1 then 'The retry lane' else 'Queue ' || v_cursor.queue_id end, v_open.n,
        case when v_open.consumers = 1 then 'all of ' else 'of ' end, v_holders,
        ', the oldest for ' || mqpg._duration(clock_timestamp() - v_since),
        case
            when v_at_work is not null then 'At work: ' || v_at_work || '.'
            when v_open.named = 0 then 'Whether it is at work is not known.'
            else 'No mqpg consume reports under ' || case v_open.named when 1 then 'that name.' else 'these names.' end
        end,
        mqpg._until(v_open.first_until), case
            when v_open.last_until > v_open.first_until + interval '1 minute'
                then ', the last one in ' || mqpg._duration(v_open.last_until - clock_timestamp())
            else ''
        end,
        mqpg._seek_statement(_why_full.subscription, _why_full.topic, v_cursor.committed::text, v_cursor.queue_id),
        v_cursor.committed, case v_again
            when 0 then ''
            else format(', and also up to %s message%s that %s', mqpg._number(v_again),
                case v_again when 1 then '' else 's' end, case v_again when 1 then 'is' else 'are' end)
        end);
end
$$;
