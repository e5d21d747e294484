-- The messages of runs (see _runs()), in the order of the runs. Each run's record batch is read
-- once, sliced and unnested. Callers compare the number of rows with the number of offsets: fewer
-- rows mean a missing body. It is meant to be inlined, so its arguments must be variables. The runs
-- come out of unnest in order, and a lateral subquery behind OFFSET 0 can only be joined by a nested
-- loop, so no sort is needed.
-- Arguments:
--   settled, picked: as in a claim; both null: all messages of the runs.
--   ids, bodies, offsets, lengths, attempts, lowest, highest: the runs.
--   dropped: true if segments of the runs may be dropped, and their bodies in the table held.
-- Locks: none. Cost: one index lookup and one detoasting for each run, and a look into held if
-- `dropped`.
create function mqpg._deliveries(
    topic text, queue_id int, attempt int, receipt text, settled bigint [], picked bigint [], ids bigint [],
    bodies bigint [], offsets bigint [], lengths int [], attempts int [], lowest bigint, highest bigint, dropped boolean
) returns setof mqpg.delivery
language sql stable as $$
    select run.id + m.o - 1, _deliveries.topic, _deliveries.queue_id, run.first_offset + m.o - 1,
        m.key, m.tag, m.headers, m.payload, m.born_at,
        coalesce(run.attempt, 1) + _deliveries.attempt - 1, _deliveries.receipt
    from unnest(_deliveries.ids, _deliveries.bodies, _deliveries.offsets, _deliveries.lengths, _deliveries.attempts)
        as run(id, body, first_offset, n, attempt)
    cross join lateral (
        select u.key, u.tag, u.headers, u.payload, b.born_at, u.o
        from mqpg.commit_log b,
            unnest(
                b.payloads[run.body % 1024 + 1:run.body % 1024 + run.n],
                b.keys[run.body % 1024 + 1:run.body % 1024 + run.n],
                b.tags[run.body % 1024 + 1:run.body % 1024 + run.n],
                b.headers[run.body % 1024 + 1:run.body % 1024 + run.n]
            ) with ordinality as u(payload, key, tag, headers, o)
        where b.batch_id = run.body / 1024 and b.batch_id between _deliveries.lowest and _deliveries.highest
        union all (
            select h.key, h.tag, h.headers, h.payload, h.born_at, h.message_id - run.body + 1
            from mqpg.held h
            where _deliveries.dropped and h.message_id >= run.body and h.message_id < run.body + run.n
                and not exists (
                    select from mqpg.commit_log b
                    where b.batch_id = run.body / 1024
                        and b.batch_id between _deliveries.lowest and _deliveries.highest)
            order by h.message_id
        )
        offset 0
    ) as m
    where (_deliveries.settled is null
            or run.first_offset + m.o - 1 not in (select s from unnest(_deliveries.settled) s))
        and (_deliveries.picked is null
            or run.first_offset + m.o - 1 in (select p from unnest(_deliveries.picked) p))
$$;
