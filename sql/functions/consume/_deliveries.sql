-- The messages of runs (see _runs), in the order of the runs. Each run's record batch is read once, sliced and
-- unnested. Fewer rows than offsets mean a missing body: callers check the count. Two ways, and callers that
-- find ids between lowest and highest in survivor take the slower one: where a segment is gone it reads the
-- survivors there. Meant to be inlined: arguments must be variables. Runs come in order out of unnest, and a
-- lateral subquery behind OFFSET 0 can only be joined by a nested loop, so nothing needs to be sorted.
-- Locks: none. Cost: one index lookup and one detoasting a run.
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
comment on function mqpg._deliveries(
    text, int, int, text, bigint [], bigint [], bigint [], bigint [], bigint [], int [], int [], bigint, bigint
) is 'Internal: messages of runs';
