-- The run of message ids that holds all offsets from from_offset to to_offset - 1 of a queue, if there
-- is one in the ticks from from_tick to until_tick - 1: the id at from_offset, the record batch in
-- which the bodies lie, the first and last position in it, and the attempt. Otherwise there is no
-- row, and _runs() says more.
-- It is meant to be inlined, so its arguments must be variables.
-- Locks: none. Cost: one index lookup.
create function mqpg._single_run(
    topic_id int, queue_id int, subscription_id int, from_offset bigint, to_offset bigint, from_tick bigint,
    until_tick bigint
) returns table (id bigint, batch_id bigint, first int, last int, attempt smallint)
language sql stable as $$
    select r.id, r.body / 1024, (r.body % 1024)::int + 1,
        (r.body % 1024 + _single_run.to_offset - _single_run.from_offset)::int, r.attempt
    from (
        select l.first_ids[l.nth] + l.skip - l.starts[l.nth] as id,
            coalesce(l.deliver_ids[l.nth], l.first_ids[l.nth]) + l.skip - l.starts[l.nth] as body,
            l.attempts[l.nth] as attempt
        from (
            select b.n, b.first_ids, b.starts, b.deliver_ids, b.attempts, _single_run.from_offset - b.base_offset as skip,
                width_bucket(least(_single_run.from_offset - b.base_offset, 2147483647)::int, b.starts) as nth
            from mqpg.consume_queue b
            where b.topic_id = _single_run.topic_id and b.queue_id = _single_run.queue_id::smallint
                and b.subscription_id = _single_run.subscription_id and b.base_offset <= _single_run.from_offset
                and b.tick_id >= _single_run.from_tick and b.tick_id < _single_run.until_tick
            order by b.base_offset desc limit 1
        ) as l
        where l.skip + _single_run.to_offset - _single_run.from_offset <= coalesce(l.starts[l.nth + 1], l.n)
        offset 0    -- else the planner computes `body` three times
    ) as r
$$;
