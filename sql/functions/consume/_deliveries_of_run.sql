-- _deliveries() for a delivery that is one run without gaps, as behind sends of many messages: one
-- record batch is read, without a join. It is unnested in the select list, because a function in
-- FROM copies its rows once more. A body that the batch lacks gives no row, and callers compare the
-- number of rows, as there. It is meant to be inlined, so its arguments must be variables.
-- Locks: none. Cost: one index lookup and one detoasting.
create function mqpg._deliveries_of_run(
    topic text, queue_id int, attempt int, receipt text, id bigint, batch_id bigint, first int, last int,
    first_offset bigint
) returns setof mqpg.delivery
language sql stable as $$
    select _deliveries_of_run.id + m.o, _deliveries_of_run.topic, _deliveries_of_run.queue_id,
        _deliveries_of_run.first_offset + m.o, m.key, m.tag, m.headers, m.payload, m.born_at,
        _deliveries_of_run.attempt, _deliveries_of_run.receipt
    from (
        select generate_series(0, _deliveries_of_run.last - _deliveries_of_run.first) as o,
            unnest(b.payloads[_deliveries_of_run.first:_deliveries_of_run.last]) as payload,
            unnest(b.keys[_deliveries_of_run.first:_deliveries_of_run.last]) as key,
            unnest(b.tags[_deliveries_of_run.first:_deliveries_of_run.last]) as tag,
            unnest(b.headers[_deliveries_of_run.first:_deliveries_of_run.last]) as headers,
            b.born_at
        from mqpg.commit_log b
        where b.batch_id = _deliveries_of_run.batch_id
    ) as m
    where m.payload is not null
$$;
