-- The runs of message ids at offsets from_offset to to_offset - 1 of a queue, cut to that range and
-- in order. They come as arrays of equal length: first message id, where its body lies, first
-- offset, length, attempt. `lowest` and `highest` are the batch ids between which the bodies lie. A
-- query that reads the bodies names these two, so that the planner prunes the other segments.
-- Locks: none. Cost: one index lookup for each recent partition of consume_queue; for each
-- partition if the range begins before these.
create function mqpg._runs(
    topic_id int, queue_id int, subscription_id int, from_offset bigint, to_offset bigint,
    out ids bigint [], out bodies bigint [], out offsets bigint [], out lengths int [], out attempts int [],
    out lowest bigint, out highest bigint
)
language plpgsql stable as $$
declare
    v_recent bigint := mqpg._recent_tick();
    v_row record;
    v_base bigint;
    v_nth int;
    v_skip bigint;
    v_singles boolean;      -- all rows that were read so far have runs of one message
begin
    select b.base_offset, b.n, b.first_ids, b.starts, b.deliver_ids, b.attempts into v_row
    from mqpg.consume_queue b
    where b.topic_id = _runs.topic_id and b.queue_id = _runs.queue_id
        and b.subscription_id = _runs.subscription_id and b.base_offset <= _runs.from_offset
        and b.tick_id >= v_recent
    order by b.base_offset desc limit 1;
    if not found then
        v_recent := 0;
        select b.base_offset, b.n, b.first_ids, b.starts, b.deliver_ids, b.attempts into v_row
        from mqpg.consume_queue b
        where b.topic_id = _runs.topic_id and b.queue_id = _runs.queue_id
            and b.subscription_id = _runs.subscription_id and b.base_offset <= _runs.from_offset
        order by b.base_offset desc limit 1;
    end if;
    v_base := v_row.base_offset;
    v_skip := _runs.from_offset - v_base;
    -- Where one run holds the whole range, as behind sends of many messages, no query is needed.
    v_nth := width_bucket(least(v_skip, 2147483647)::int, v_row.starts);
    if _runs.to_offset > _runs.from_offset
        and _runs.to_offset - v_base <= coalesce(v_row.starts[v_nth + 1], v_row.n)
    then
        v_skip := v_skip - v_row.starts[v_nth];
        ids := array[v_row.first_ids[v_nth] + v_skip];
        bodies := array[coalesce(v_row.deliver_ids[v_nth], v_row.first_ids[v_nth]) + v_skip];
        offsets := array[_runs.from_offset];
        lengths := array[(_runs.to_offset - _runs.from_offset)::int];
        attempts := array[v_row.attempts[v_nth]::int];
        lowest := bodies[1] / 1024;
        highest := lowest;
        return;
    end if;
    -- Where each message is a run, as behind sends of one message, slices of the rows suffice.
    v_singles := cardinality(v_row.first_ids) = v_row.n;
    if v_singles then
        for v_row in
            select c.base_offset, c.n, c.first_ids, c.deliver_ids, c.attempts
            from mqpg.consume_queue c
            where c.topic_id = _runs.topic_id and c.queue_id = _runs.queue_id
                and c.subscription_id = _runs.subscription_id
                and c.tick_id >= v_recent and c.base_offset >= v_base and c.base_offset < _runs.to_offset
            order by c.base_offset
        loop
            v_singles := cardinality(v_row.first_ids) = v_row.n
                and v_row.deliver_ids is null and v_row.attempts is null;
            exit when not v_singles;
            ids := ids || v_row.first_ids[
                greatest(_runs.from_offset - v_row.base_offset, 0) + 1
                :least(_runs.to_offset - v_row.base_offset, v_row.n)];
        end loop;
    end if;
    if v_singles and cardinality(ids) = _runs.to_offset - _runs.from_offset then
        bodies := ids;
        offsets := array(select generate_series(_runs.from_offset, _runs.to_offset - 1));
        lengths := array_fill(1, array[cardinality(ids)]);
        attempts := array_fill(null::int, array[cardinality(ids)]);
        select min(i) / 1024, max(i) / 1024 into _runs.lowest, _runs.highest from unnest(ids) i;
        return;
    end if;
    select array_agg(r.first_id + r.skip order by r.first_offset), array_agg(r.body + r.skip order by r.first_offset),
        array_agg(r.first_offset + r.skip order by r.first_offset),
        array_agg((least(r.first_offset + r.n, _runs.to_offset) - r.first_offset - r.skip)::int
            order by r.first_offset),
        array_agg(r.attempt::int order by r.first_offset), min(r.body) / 1024, max(r.body) / 1024
    into _runs.ids, _runs.bodies, _runs.offsets, _runs.lengths, _runs.attempts, _runs.lowest, _runs.highest
    from (
        select u.first_id, coalesce(u.deliver_id, u.first_id) as body, u.attempt,
            c.base_offset + u.start as first_offset, coalesce(c.starts[u.i + 1], c.n) - u.start as n,
            greatest(_runs.from_offset - c.base_offset - u.start, 0) as skip
        from mqpg.consume_queue c,
            unnest(c.first_ids, c.starts, c.deliver_ids, c.attempts)
                with ordinality as u(first_id, start, deliver_id, attempt, i)
        where c.topic_id = _runs.topic_id and c.queue_id = _runs.queue_id
            and c.subscription_id = _runs.subscription_id
            and c.tick_id >= v_recent and c.base_offset >= v_base and c.base_offset < _runs.to_offset
        offset 0
    ) as r
    where r.first_offset < _runs.to_offset and r.first_offset + r.n > _runs.from_offset;
end
$$;
