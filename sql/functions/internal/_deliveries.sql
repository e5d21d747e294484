-- The messages at offsets from_offset .. to_offset - 1 of a queue, in order. Each run's record batch is read
-- once, sliced and unnested; where its segment is gone the survivors in held are read (look_in_held: whether
-- there are any). Fewer rows than offsets mean a missing body: callers check the count.
-- Locks: none. Cost: one index lookup and one detoasting a run.
create function mqpg._deliveries(
    topic_id int, queue_id int, subscription_id int, from_offset bigint, to_offset bigint, settled bigint [],
    topic text, attempt int, receipt text, look_in_held boolean
) returns setof mqpg.delivery
language sql stable as $$
    select run.first_id + m.o - 1, _deliveries.topic, _deliveries.queue_id, run.first_offset + m.o - 1,
        m.key, m.tag, m.headers, m.payload, m.born_at,
        coalesce(run.attempt, 1) + _deliveries.attempt - 1, _deliveries.receipt
    from (
        select r.first_id + r.skip as first_id, coalesce(r.deliver_id, r.first_id) + r.skip as body_id,
            r.first_offset + r.skip as first_offset, r.attempt,
            least(r.first_offset + r.n, _deliveries.to_offset) - r.first_offset - r.skip as n
        from (
            select u.first_id, u.deliver_id, u.attempt, c.base_offset + u.start as first_offset,
                coalesce(c.starts[u.i + 1], c.n) - u.start as n,
                greatest(_deliveries.from_offset - c.base_offset - u.start, 0) as skip
            from mqpg.consume_queue c,
                unnest(c.first_ids, c.starts, c.deliver_ids, c.attempts)
                    with ordinality as u(first_id, start, deliver_id, attempt, i)
            where c.topic_id = _deliveries.topic_id and c.queue_id = _deliveries.queue_id
                and c.subscription_id = _deliveries.subscription_id
                and c.base_offset >= (
                    select b.base_offset from mqpg.consume_queue b
                    where b.topic_id = _deliveries.topic_id and b.queue_id = _deliveries.queue_id
                        and b.subscription_id = _deliveries.subscription_id
                        and b.base_offset <= _deliveries.from_offset
                    order by b.base_offset desc limit 1)
                and c.base_offset < _deliveries.to_offset
        ) as r
        where r.first_offset < _deliveries.to_offset and r.first_offset + r.n > _deliveries.from_offset
    ) as run
    cross join lateral (
        select u.key, u.tag, u.headers, u.payload, b.born_at, u.o
        from mqpg.commit_log b,
            unnest(
                b.payloads[run.body_id % 1024 + 1:run.body_id % 1024 + run.n],
                b.keys[run.body_id % 1024 + 1:run.body_id % 1024 + run.n],
                b.tags[run.body_id % 1024 + 1:run.body_id % 1024 + run.n],
                b.headers[run.body_id % 1024 + 1:run.body_id % 1024 + run.n]
            ) with ordinality as u(payload, key, tag, headers, o)
        where b.batch_id = run.body_id / 1024
        union all
        select h.key, h.tag, h.headers, h.payload, h.born_at, h.message_id - run.body_id + 1
        from mqpg.held h
        where _deliveries.look_in_held and h.message_id >= run.body_id and h.message_id < run.body_id + run.n
            and not exists (select from mqpg.commit_log b where b.batch_id = run.body_id / 1024)
    ) as m
    where _deliveries.settled is null or run.first_offset + m.o - 1 <> all(_deliveries.settled)
    order by run.first_offset + m.o
$$;
comment on function mqpg._deliveries(int, int, int, bigint, bigint, bigint [], text, int, text, boolean)
    is 'Internal: messages in a range of offsets';
