-- Runs (see _runs()) cut to the picked offsets in them; runs without any are left out. Both ascend.
-- Locks: none. Cost: linear in the runs and the picked offsets.
create function mqpg._matching_runs(
    picked bigint [], inout ids bigint [], inout bodies bigint [], inout offsets bigint [], inout lengths int [],
    inout attempts int [], inout lowest bigint, inout highest bigint
)
language plpgsql immutable as $$
declare
    v_nth int := 1;         -- the next picked offset
    v_first int;            -- the first one in the run
    v_skip bigint;
    v_ids bigint [];
    v_bodies bigint [];
    v_offsets bigint [];
    v_lengths int [];
    v_attempts int [];
begin
    for v_run in 1..coalesce(cardinality(ids), 0) loop
        while picked[v_nth] < offsets[v_run] loop     -- in no run: it will be missed
            v_nth := v_nth + 1;
        end loop;
        v_first := v_nth;
        while picked[v_nth] < offsets[v_run] + lengths[v_run] loop
            v_nth := v_nth + 1;
        end loop;
        continue when v_nth = v_first;
        v_skip := picked[v_first] - offsets[v_run];
        v_ids := v_ids || (ids[v_run] + v_skip);
        v_bodies := v_bodies || (bodies[v_run] + v_skip);
        v_offsets := v_offsets || picked[v_first];
        v_lengths := v_lengths || (picked[v_nth - 1] - picked[v_first] + 1)::int;
        v_attempts := array_append(v_attempts, attempts[v_run]);
    end loop;
    ids := v_ids;
    bodies := v_bodies;
    offsets := v_offsets;
    lengths := v_lengths;
    attempts := v_attempts;
    select min(b) / 1024, max(b) / 1024 into lowest, highest from unnest(v_bodies) as b;
end
$$;
