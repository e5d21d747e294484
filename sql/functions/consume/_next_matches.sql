-- The next fresh messages of a queue that match the subscription's filter, up to `most`, and the
-- offset at which the search ended. It continues past messages that do not match, in growing steps:
-- over about 4096 offsets or, while it finds nothing, to the tail or until the time `until`.
-- Messages before `upto` that are not in `picked` are done.
-- Locks: none. Cost: reads and evaluates the messages that it passes.
-- Errors: MQ014 (a body is missing), 40001.
create function mqpg._next_matches(
    subscription mqpg.subscription, queue_id int, from_offset bigint, tail bigint, most int, until timestamptz,
    out picked bigint [], out upto bigint
)
language plpgsql as $$
declare
    v_step int := _next_matches.most;
    v_to bigint;
begin
    picked := '{}';
    upto := _next_matches.from_offset;
    loop
        v_to := least(upto + v_step, _next_matches.tail);
        picked := picked || (mqpg._matching_offsets(
            _next_matches.subscription, _next_matches.queue_id, upto, v_to)).offsets;
        upto := v_to;
        exit when cardinality(picked) >= _next_matches.most
            or (picked <> '{}' and upto - _next_matches.from_offset >= 4096)
            or upto >= _next_matches.tail or clock_timestamp() >= _next_matches.until;
        v_step := least(v_step * 2, 4096);
    end loop;
    if cardinality(picked) > _next_matches.most then
        picked := picked[:_next_matches.most];
        upto := picked[_next_matches.most] + 1;
    end if;
end
$$;
