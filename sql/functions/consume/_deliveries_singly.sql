-- _deliveries() where every run is one message, as it is when messages were sent one by one. A body
-- is read by its subscript, without a function scan for each run. A missing body gives no row, and
-- callers compare the number of rows. It is meant to be inlined, so its arguments must be
-- variables.
-- Locks: none. Cost: one index lookup and one detoasting for each run.
create function mqpg._deliveries_singly(
    topic text, queue_id int, attempt int, receipt text, ids bigint [], bodies bigint [], offsets bigint [],
    attempts int [], lowest bigint, highest bigint
) returns setof mqpg.delivery
language sql stable as $$
    select run.id, _deliveries_singly.topic, _deliveries_singly.queue_id, run.queue_offset,
        m.key, m.tag, m.headers, m.payload, m.born_at,
        coalesce(run.attempt, 1) + _deliveries_singly.attempt - 1, _deliveries_singly.receipt
    from unnest(
        _deliveries_singly.ids, _deliveries_singly.bodies, _deliveries_singly.offsets, _deliveries_singly.attempts)
        as run(id, body, queue_offset, attempt)
    cross join lateral (
        select b.keys[run.body % 1024 + 1] as key, b.tags[run.body % 1024 + 1] as tag,
            b.headers[run.body % 1024 + 1] as headers, b.payloads[run.body % 1024 + 1] as payload, b.born_at
        from mqpg.commit_log b
        where b.batch_id = run.body / 1024
            and b.batch_id between _deliveries_singly.lowest and _deliveries_singly.highest
        offset 0
    ) as m
    where m.payload is not null
$$;
