-- _deliveries() that also reads the table held where a segment is dropped.
-- Locks: none. Cost: one index lookup and one detoasting for each run, and a look into held.
create function mqpg._deliveries_with_survivors(
    topic text, queue_id int, attempt int, receipt text, settled bigint [], picked bigint [], ids bigint [],
    bodies bigint [], offsets bigint [], lengths int [], attempts int [], lowest bigint, highest bigint
) returns setof mqpg.delivery
language sql stable as $$
    select run.id + m.o - 1, _deliveries_with_survivors.topic, _deliveries_with_survivors.queue_id,
        run.first_offset + m.o - 1,
        m.key, m.tag, m.headers, m.payload, m.born_at,
        coalesce(run.attempt, 1) + _deliveries_with_survivors.attempt - 1, _deliveries_with_survivors.receipt
    from unnest(
        _deliveries_with_survivors.ids, _deliveries_with_survivors.bodies, _deliveries_with_survivors.offsets,
            _deliveries_with_survivors.lengths,
        _deliveries_with_survivors.attempts) as run(id, body, first_offset, n, attempt)
    cross join lateral (
        select u.key, u.tag, u.headers, u.payload, b.born_at, u.o
        from mqpg.commit_log b,
            unnest(
                b.payloads[run.body % 1024 + 1:run.body % 1024 + run.n],
                b.keys[run.body % 1024 + 1:run.body % 1024 + run.n],
                b.tags[run.body % 1024 + 1:run.body % 1024 + run.n],
                b.headers[run.body % 1024 + 1:run.body % 1024 + run.n]
            ) with ordinality as u(payload, key, tag, headers, o)
        where b.batch_id = run.body / 1024
            and b.batch_id between _deliveries_with_survivors.lowest and _deliveries_with_survivors.highest
        union all
        select h.key, h.tag, h.headers, h.payload, h.born_at, h.message_id - run.body + 1
        from mqpg.held h
        where h.message_id >= run.body and h.message_id < run.body + run.n
            and not exists (
                select from mqpg.commit_log b
                where b.batch_id = run.body / 1024
                    and b.batch_id between _deliveries_with_survivors.lowest and _deliveries_with_survivors.highest)
    ) as m
    where (_deliveries_with_survivors.settled is null
            or run.first_offset + m.o - 1 not in (select s from unnest(_deliveries_with_survivors.settled) s))
        and (_deliveries_with_survivors.picked is null
            or run.first_offset + m.o - 1 in (select p from unnest(_deliveries_with_survivors.picked) p))
    order by run.first_offset + m.o
$$;
