-- When a row of the table delayed is written, in the broker's time. If no keeper has made partitions
-- for days, it is the end of the last one.
-- Locks: none. Cost: a lookup in a small table.
create function mqpg._written_at(at timestamptz, ahead interval) returns timestamptz
language plpgsql volatile as $$
declare
    v_end text;
begin
    select s.upper_bound into v_end from mqpg.segment s
    where s.family = 'delayed' order by s.segment_no desc limit 1;
    return least(_written_at.at + _written_at.ahead, v_end::timestamptz - interval '1 microsecond');
end
$$;
