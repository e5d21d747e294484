-- _deliveries() for a delivery that is one run without gaps, as behind sends of many messages: one
-- record batch is read, without a join. Callers compare the number of rows, as there. It is meant
-- to be inlined, so its arguments must be variables.
-- Locks: none. Cost: one index lookup and one detoasting.
create function mqpg._deliveries_of_run(
    topic text, queue_id int, attempt int, receipt text, id bigint, body bigint, first_offset bigint, n int
) returns setof mqpg.delivery
language sql stable as $$
    select _deliveries_of_run.id + u.o - 1, _deliveries_of_run.topic, _deliveries_of_run.queue_id,
        _deliveries_of_run.first_offset + u.o - 1, u.key, u.tag, u.headers, u.payload, b.born_at,
        _deliveries_of_run.attempt, _deliveries_of_run.receipt
    from mqpg.commit_log b,
        unnest(
            b.payloads[_deliveries_of_run.body % 1024 + 1:_deliveries_of_run.body % 1024 + _deliveries_of_run.n],
            b.keys[_deliveries_of_run.body % 1024 + 1:_deliveries_of_run.body % 1024 + _deliveries_of_run.n],
            b.tags[_deliveries_of_run.body % 1024 + 1:_deliveries_of_run.body % 1024 + _deliveries_of_run.n],
            b.headers[_deliveries_of_run.body % 1024 + 1:_deliveries_of_run.body % 1024 + _deliveries_of_run.n]
        ) with ordinality as u(payload, key, tag, headers, o)
    where b.batch_id = _deliveries_of_run.body / 1024
$$;
comment on function mqpg._deliveries_of_run(text, int, int, text, bigint, bigint, bigint, int) is
    'Internal: messages of one run';
