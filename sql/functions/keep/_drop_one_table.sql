-- Drops at most one table of one segment, because a drop blocks all other transactions until
-- commit, and reports what cannot be dropped and why. The order is: oldest ticks, expired bodies,
-- old decisions, closed slots.
-- Locks: ACCESS EXCLUSIVE on a partition and its parent, waited for at most 100 ms.
-- Cost: one look at what each closed segment is still needed for.
create function mqpg._drop_one_table()
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
        for action, family, segment_no, detail in select d.* from mqpg._drop_if_due(v_segment) d loop
            return next;
            if action = 'dropped' then
                return;
            end if;
        end loop;
    end loop;
end
$$;
comment on function mqpg._drop_one_table() is 'Internal: drop one table that is no longer needed';
