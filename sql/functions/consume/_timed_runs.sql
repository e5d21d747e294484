-- The runs of message ids of a range of a queue, as _runs() gives them, with the times at which they
-- were appended. `held` says whether bodies may lie in the table held.
-- Locks: none. Cost: one index lookup for each partition of consume_queue, and one for each row.
create function mqpg._timed_runs(
    topic_id int, queue_id int, from_offset bigint, to_offset bigint,
    out ids bigint [], out bodies bigint [], out offsets bigint [], out lengths int [], out times timestamptz [],
    out lowest bigint, out highest bigint, out held boolean
)
language plpgsql stable as $$
begin
    select array_agg(r.first_id + r.skip order by r.first_offset), array_agg(r.body + r.skip order by r.first_offset),
        array_agg(r.first_offset + r.skip order by r.first_offset),
        array_agg((least(r.first_offset + r.n, _timed_runs.to_offset) - r.first_offset - r.skip)::int
            order by r.first_offset),
        array_agg(r.at order by r.first_offset), min(r.body) / 1024, max(r.body) / 1024
    into _timed_runs.ids, _timed_runs.bodies, _timed_runs.offsets, _timed_runs.lengths, _timed_runs.times,
        _timed_runs.lowest, _timed_runs.highest
    from (
        select u.first_id, coalesce(u.deliver_id, u.first_id) as body, t.at,
            c.base_offset + u.start as first_offset, coalesce(c.starts[u.i + 1], c.n) - u.start as n,
            greatest(_timed_runs.from_offset - c.base_offset - u.start, 0) as skip
        from mqpg.consume_queue c
        left join mqpg.tick t on t.tick_id = c.tick_id
        cross join lateral unnest(c.first_ids, c.starts, c.deliver_ids)
            with ordinality as u(first_id, start, deliver_id, i)
        where c.topic_id = _timed_runs.topic_id and c.queue_id = _timed_runs.queue_id and c.subscription_id = 0
            and c.base_offset > _timed_runs.from_offset - 4096     -- the greatest length of a row
            and c.base_offset < _timed_runs.to_offset
        offset 0
    ) as r
    where r.first_offset < _timed_runs.to_offset and r.first_offset + r.n > _timed_runs.from_offset;
    held := exists (
        select from mqpg.held h
        where h.message_id >= _timed_runs.lowest * 1024 and h.message_id < _timed_runs.highest * 1024 + 1024);
end
$$;
