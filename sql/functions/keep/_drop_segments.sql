-- Drops at most one table of one segment, for a drop holds everybody up until commit, and tells what cannot be
-- dropped and why: oldest ticks, then expired bodies, old decisions, closed slots.
-- Locks: see _drop_log(), _drop_decisions(), _drop_ticks(), _drop_slot(). Cost: theirs.
create function mqpg._drop_segments()
returns table (action text, family text, segment_no bigint, detail text)
language plpgsql as $$
declare
    v_segment mqpg.segment;
begin
    for v_segment in
        select s.* from mqpg.segment s
        where s.closed_at is not null and s.dropped_at is null
        order by array_position(array['tick', 'log', 'cursor', 'delayed', 'dedup'], s.family), s.segment_no
    loop
        for action, family, segment_no, detail in select d.* from mqpg._drop_segment(v_segment) d loop
            return next;
            if action = 'dropped' then
                return;
            end if;
        end loop;
    end loop;
end
$$;
comment on function mqpg._drop_segments() is 'Internal: drop one table that nobody needs any more';
