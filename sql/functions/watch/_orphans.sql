-- Messages that no group will get, because their topic was dropped while their transaction was
-- open. send() and commit() take no lock on the topic, so this can happen.
-- Locks: none. Cost: for each dropped topic, its rows in the consume queues and the undecided half
-- messages.
create function mqpg._orphans() returns table (
    topic text, topic_id int, dropped_at timestamptz, forced boolean, messages bigint, undecided bigint
)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
begin
    perform mqpg._require_privilege('operator', 'auditor', 'worker');
    return query
    select d.name, d.topic_id, d.dropped_at, d.forced,
        (
            select coalesce(sum(c.n), 0)
            from mqpg.consume_queue as c
            inner join mqpg.tick as t on c.tick_id = t.tick_id
            where c.topic_id = d.topic_id and c.subscription_id = 0 and t.at > d.dropped_at
        ),
        (
            select count(*)
            from pgmq.q_mqpg_oplog as q
            cross join lateral (values ((q.message ->> 'message_id')::bigint)) as i (message_id)
            cross join lateral mqpg._message(i.message_id) as m
            where m.topic_id = d.topic_id and not mqpg._is_decided_half(i.message_id)
        )
    from mqpg.dropped_topic as d;
end
$$;
