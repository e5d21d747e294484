-- Consumers, other than this one, that seem to be gone and own pinned queues where messages wait; see
-- _owner_is_gone().
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
    )
    select h.owner, h.queues, h.lag, h.changed_at
    from held h
    where h.lag > 0 and mqpg._owner_is_gone(_gone_owners.consumer_group, _gone_owners.topic, h.owner, h.changed_at,
        make_interval(secs => _gone_owners.silence))
    order by h.owner;
end
$$;
