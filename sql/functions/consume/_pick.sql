-- Looks through fresh messages of a queue for those that the subscription's filter chooses: up to `most` of them,
-- and where the look ended. Goes on over what does not match, in growing steps: over about 4096 offsets, and while
-- nothing is found to the tail, or for the setting filter_time. What lies before `upto` and is not picked is done with.
-- Locks: none. Cost: reads and evaluates what it passes. Errors: MQ014, 40001.
create function mqpg._pick(
    subscription mqpg.subscription, queue_id int, from_offset bigint, tail bigint, most int,
    out picked bigint [], out upto bigint
)
language plpgsql as $$
declare
    v_until timestamptz := clock_timestamp() + mqpg._setting('filter_time')::interval;
    v_step int := _pick.most;
    v_to bigint;
begin
    picked := '{}';
    upto := _pick.from_offset;
    loop
        v_to := least(upto + v_step, _pick.tail);
        picked := picked || (mqpg._chosen(_pick.subscription, _pick.queue_id, upto, v_to)).offsets;
        upto := v_to;
        exit when cardinality(picked) >= _pick.most or (picked <> '{}' and upto - _pick.from_offset >= 4096)
            or upto >= _pick.tail or clock_timestamp() >= v_until;
        v_step := least(v_step * 2, 4096);
    end loop;
    if cardinality(picked) > _pick.most then
        picked := picked[:_pick.most];
        upto := picked[_pick.most] + 1;
    end if;
end
$$;
comment on function mqpg._pick(mqpg.subscription, int, bigint, bigint, int)
    is 'Internal: next messages that a filter chooses';
