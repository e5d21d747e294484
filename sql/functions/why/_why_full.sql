-- What a queue of a shared subscription waits for that has as many open deliveries as it may have:
-- whose they are, since when, when their leases end, and the call that frees them.
-- Locks: none. Cost: linear in the claims; one index lookup, and one row for each worker.
create function mqpg._why_full(
    subscription mqpg.subscription, topic mqpg.topic, last_version mqpg.cursor, out detail jsonb, out remedy jsonb
)
language plpgsql stable as $$
declare
    v_cursor mqpg.cursor := _why_full.last_version;
    v_group text := (_why_full.subscription).consumer_group;
    v_open record;
    v_since timestamptz;
    v_holders jsonb;
    v_at_work text;
begin
    select count(*) as n, min(c.epoch) as epoch, min(c.lease_until) as first_until, max(c.lease_until) as last_until
    into v_open
    from unnest(v_cursor.claims) c where c.epoch > 0;
    -- An epoch is the version of the cursor at the delivery times 2^20, and something.
    select d.at into v_since from mqpg.cursor d
    where d.subscription_id = v_cursor.subscription_id and d.queue_id = v_cursor.queue_id
        and d.version = v_open.epoch / 1048576
        and d.action = any(mqpg._actions('receive', 'ack_and_receive', 'take_over'))
    limit 1;
    select jsonb_agg(jsonb_build_object('consumer', h.consumer, 'deliveries', h.n) order by h.n desc, h.consumer)
    into v_holders
    from (
        select c.consumer, count(*) as n from unnest(v_cursor.claims) c
        where c.epoch > 0
        group by c.consumer order by 2 desc, 1 limit 3
    ) as h;
    select string_agg(distinct w.detail ->> 'consumer', ', ') into v_at_work from mqpg.worker_status w
    where w.role = 'consumer' and w.alive and w.detail ->> 'topic' = (_why_full.topic).name
        and w.detail ->> 'consumer_group' = v_group
        and w.detail ->> 'consumer' in (select c.consumer from unnest(v_cursor.claims) c where c.epoch > 0);
    detail := jsonb_strip_nulls(jsonb_build_object('deliveries', v_open.n, 'delivered_at', v_since,
            'until', v_open.first_until, 'last_until', v_open.last_until,
            'acknowledged_ahead', mqpg._acknowledged_ahead(v_cursor), 'consumers_at_work', v_at_work))
        || jsonb_build_object('holders', v_holders);
    remedy := mqpg._seek_remedy(_why_full.subscription, _why_full.topic, v_cursor.queue_id, v_cursor.committed);
end
$$;
