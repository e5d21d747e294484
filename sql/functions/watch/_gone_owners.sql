-- Consumers, other than this one, that seem to be gone and own pinned queues where messages wait. A
-- consumer is gone if no worker process of its name is alive, and it has done nothing for so many
-- seconds or its worker process ended after the last thing that it did. A program that runs its
-- consumer by itself has no row in worker_status.
-- Locks: none. Cost: that of the view subscription_lag for this subscription.
create function mqpg._gone_owners(
    consumer_group text, topic text, consumer text, silence float8
) returns table (owner text, queues int [], lag bigint, changed_at timestamptz)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
begin
    perform mqpg._require_subscription(_gone_owners.consumer_group, _gone_owners.topic);
    return query
    with queue as (
        select l.* from mqpg._subscription_lag(_gone_owners.consumer_group, _gone_owners.topic) l
        where l.mode = 'pinned'
    ), owned as (
        select q.owner, q.queue_id, q.lag, q.changed_at from queue q
        union all
        -- The key of a claim in the retry lane is the queue for whose owner it waits.
        select o.owner, l.queue_id, coalesce(cardinality(c.picked), c.to_offset - c.from_offset), o.changed_at
        from queue l
        cross join lateral mqpg._newest_cursor(l.subscription_id, -1) as w
        cross join lateral unnest(w.claims) c
        join queue o on o.queue_id = c.key::int
        where l.queue_id = -1
    ), held as (
        select o.owner, array_agg(distinct o.queue_id order by o.queue_id) filter (where o.lag > 0) as queues,
            sum(o.lag)::bigint as lag, max(o.changed_at) as changed_at
        from owned o
        where o.owner <> _gone_owners.consumer and o.owner not like '(%'    -- that waits for an older queue
        group by o.owner
    ), process as (
        select w.detail ->> 'consumer' as name, w.alive, w.seen_at from mqpg.worker_status w
        where w.role = 'consumer' and w.detail ->> 'consumer_group' = _gone_owners.consumer_group
            and w.detail ->> 'topic' = _gone_owners.topic
    )
    select h.owner, h.queues, h.lag, h.changed_at
    from held h
    where h.lag > 0 and not exists (select from process p where p.name = h.owner and p.alive)
        and (
            h.changed_at < clock_timestamp() - make_interval(secs => _gone_owners.silence)
            or exists (
                select from process p
                where p.name = h.owner and p.seen_at > h.changed_at - interval '1 second'))
    order by h.owner;
end
$$;
