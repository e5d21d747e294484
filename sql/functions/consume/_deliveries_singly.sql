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
    select m.id, _deliveries_singly.topic, _deliveries_singly.queue_id, m.queue_offset,
        m.keys[m.place], m.tags[m.place], m.headers[m.place], m.payloads[m.place], m.born_at,
        coalesce(m.attempt, 1) + _deliveries_singly.attempt - 1, _deliveries_singly.receipt
    from (
        select run.id, run.queue_offset, run.attempt, run.body % 1024 + 1 as place,
            b.keys, b.tags, b.headers, b.payloads, b.born_at
        from unnest(
            _deliveries_singly.ids, _deliveries_singly.bodies, _deliveries_singly.offsets, _deliveries_singly.attempts)
            as run(id, body, queue_offset, attempt)
        full join (
            select l.batch_id, l.keys, l.tags, l.headers, l.payloads, l.born_at
            from mqpg.commit_log l
            where l.batch_id = any(array(select i / 1024 from unnest(_deliveries_singly.bodies) as i))
                and l.batch_id between _deliveries_singly.lowest and _deliveries_singly.highest
            offset 0
        ) as b on b.batch_id = run.body / 1024
        order by run.queue_offset
        offset 0
    ) as m
    where m.payloads[m.place] is not null
$$;
