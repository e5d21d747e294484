-- The messages of runs (see _runs()), in the order of the runs. Each run's record batch is read
-- once, sliced and unnested. Callers compare the number of rows with the number of offsets: fewer
-- rows mean a missing body. Where a segment is dropped the bodies are in the table held, and
-- callers that find ids between `lowest` and `highest` there use _deliveries_with_survivors(),
-- which is slower. It is meant to be inlined, so its arguments must be variables. The runs come out
-- of unnest in order, and a lateral subquery behind OFFSET 0 can only be joined by a nested loop,
-- so no sort is needed.
-- Locks: none. Cost: one index lookup and one detoasting for each run.
create function mqpg._deliveries(
    topic text, queue_id int, attempt int, receipt text, settled bigint [], picked bigint [], ids bigint [],
    bodies bigint [], offsets bigint [], lengths int [], attempts int [], lowest bigint, highest bigint
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
        offset 0
    ) as m
    where (_deliveries.settled is null
            or run.first_offset + m.o - 1 not in (select s from unnest(_deliveries.settled) s))
        and (_deliveries.picked is null
            or run.first_offset + m.o - 1 in (select p from unnest(_deliveries.picked) p))
$$;
