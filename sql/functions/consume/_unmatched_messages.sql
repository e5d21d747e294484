-- Messages in the topics' queues that the present filters of subscriptions do not choose. Such a
-- message counts as consumed without a delivery, which the audit must know.
-- Locks: none.
-- Cost: reads the bodies of all filtered topics, once for each such subscription.
-- Errors: MQ014 (a body is missing), 40001.
create function mqpg._unmatched_messages() returns table (subscription_id int, message_id bigint)
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
    return query
    select s.subscription_id, u.first_id + o.o - u.start
    from mqpg.subscription s
    join mqpg.consume_queue c on c.topic_id = s.topic_id and c.subscription_id = 0
    cross join lateral mqpg._matching_offsets(s, c.queue_id, c.base_offset, c.base_offset + c.n) as k
    cross join lateral unnest(c.first_ids, c.starts) with ordinality as u(first_id, start, i)
    cross join lateral generate_series(u.start, coalesce(c.starts[u.i + 1], c.n) - 1) as o(o)
    where (s.filter is not null or s.tags is not null) and (s.mode <> 'broadcast' or s.member <> '')
        and c.base_offset + o.o not in (select x from unnest(k.offsets) as x);
end
$$;
comment on function mqpg._unmatched_messages() is
    'Internal: messages that subscriptions'' filters do not choose';
