-- The first tick that was made at or after a time. It bisects, because the times of ticks ascend.
-- Locks: none. Cost: about 30 index lookups, whatever the number of ticks.
create function mqpg._tick_at_time(at timestamptz) returns bigint
language plpgsql stable as $$
declare
    v_low bigint;
    v_high bigint;
    v_middle bigint;
    v_tick record;
begin
    select min(t.tick_id), max(t.tick_id) + 1 into v_low, v_high from mqpg.tick t;
    while v_low < v_high loop
        v_middle := v_low + (v_high - v_low) / 2;
        select t.tick_id, t.at into v_tick from mqpg.tick t
        where t.tick_id >= v_middle order by t.tick_id limit 1;
        if v_tick.at >= _tick_at_time.at then
            v_high := v_middle;
        else
            v_low := v_tick.tick_id + 1;
        end if;
    end loop;
    return v_low;
end
$$;
