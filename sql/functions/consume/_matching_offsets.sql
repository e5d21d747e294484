-- The offsets from_offset to to_offset - 1 of a queue whose messages match the subscription's
-- filter and tags, with their keys, as arrays in the order of the offsets. One query evaluates the
-- whole range. Only if that fails does it evaluate each message by itself. `offset 0` keeps the
-- planner from computing the match once for each use of it.
-- Locks: none.
-- Cost: reads the bodies of the range; with a filter, parses those with a matching tag.
-- Errors: MQ014 (a body is missing), 40001.
create function mqpg._matching_offsets(
    subscription mqpg.subscription, queue_id int, from_offset bigint, to_offset bigint,
    out offsets bigint [], out keys text []
)
language plpgsql as $$
declare
    v_tags text [] := (_matching_offsets.subscription).tags;
    v_filter jsonpath := (_matching_offsets.subscription).filter;
    v_runs record;
    v_all bigint;
begin
    v_runs := mqpg._runs((_matching_offsets.subscription).topic_id, _matching_offsets.queue_id, 0,
        _matching_offsets.from_offset, _matching_offsets.to_offset);
    begin
        select array_agg(d.queue_offset order by d.queue_offset) filter (where m.chosen),
            array_agg(d.key order by d.queue_offset) filter (where m.chosen), count(*)
        into _matching_offsets.offsets, _matching_offsets.keys, v_all
        from mqpg._deliveries_with_survivors(
            null, null, 1, null, null, null, v_runs.ids, v_runs.bodies, v_runs.offsets, v_runs.lengths,
            v_runs.attempts, v_runs.lowest, v_runs.highest) as d
        cross join lateral (select case
            when v_tags is not null and d.tag = any(v_tags) is not true then false
            when v_filter is null then true
            else jsonb_path_match(d.payload::jsonb, v_filter,
                jsonb_build_object('headers', d.headers, 'key', d.key, 'tag', d.tag), true)
        end as chosen offset 0) as m;
    exception when data_exception or feature_not_supported or program_limit_exceeded or undefined_object
        or internal_error then
        select array_agg(d.queue_offset order by d.queue_offset) filter (where m.chosen),
            array_agg(d.key order by d.queue_offset) filter (where m.chosen), count(*)
        into _matching_offsets.offsets, _matching_offsets.keys, v_all
        from mqpg._deliveries_with_survivors(
            null, null, 1, null, null, null, v_runs.ids, v_runs.bodies, v_runs.offsets, v_runs.lengths,
            v_runs.attempts, v_runs.lowest, v_runs.highest) as d
        cross join lateral (select case
            when v_tags is not null and d.tag = any(v_tags) is not true then false
            else mqpg._matches_filter(v_filter, d.key, d.tag, d.headers, d.payload)
        end as chosen offset 0) as m;
    end;
    if v_all <> _matching_offsets.to_offset - _matching_offsets.from_offset then
        perform mqpg._refuse_missing_body(
            (select t.name from mqpg.topic t where t.topic_id = (_matching_offsets.subscription).topic_id),
                _matching_offsets.queue_id,
            _matching_offsets.from_offset, _matching_offsets.to_offset, v_all);
    end if;
    _matching_offsets.offsets := coalesce(_matching_offsets.offsets, '{}');
    _matching_offsets.keys := coalesce(_matching_offsets.keys, '{}');
end
$$;
