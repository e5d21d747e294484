-- Runs (see _runs()) cut to the picked offsets in them; runs without any are left out.
-- Locks: none. Cost: runs times picked offsets.
create function mqpg._matching_runs(
    picked bigint [], inout ids bigint [], inout bodies bigint [], inout offsets bigint [], inout lengths int [],
    inout attempts int [], inout lowest bigint, inout highest bigint
)
language sql immutable as $$
    select array_agg(r.id + p.first - r.first_offset order by r.o),
        array_agg(r.body + p.first - r.first_offset order by r.o),
        array_agg(p.first order by r.o), array_agg((p.last - p.first + 1)::int order by r.o),
        array_agg(r.attempt order by r.o), min(r.body) / 1024, max(r.body) / 1024
    from unnest(_matching_runs.ids, _matching_runs.bodies, _matching_runs.offsets, _matching_runs.lengths,
        _matching_runs.attempts)
        with ordinality as r(id, body, first_offset, n, attempt, o)
    cross join lateral (
        select min(u.u) as first, max(u.u) as last from unnest(_matching_runs.picked) as u
        where u.u >= r.first_offset and u.u < r.first_offset + r.n
    ) as p
    where p.first is not null
$$;
