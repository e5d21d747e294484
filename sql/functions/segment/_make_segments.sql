-- Makes segments until every family has enough, or until `most` are made. The installation calls
-- it, so that the queue works without any worker. keep() calls it too, and append() now and then
-- (most => 1).
-- Locks: the keeper's; if another keeper holds it, nothing is done. SHARE UPDATE EXCLUSIVE on the
-- parents, which blocks no reader or writer; a parent that is in use is left for the next call.
-- Cost: a few lookups, then DDL.
create function mqpg._make_segments(most int default 100) returns setof mqpg.segment
language plpgsql as $$
declare
    v_family text;
    v_next record;
    v_made int := 0;
begin
    if not pg_try_advisory_xact_lock(1836150835, 0) then
        return;
    end if;
    foreach v_family in array array['log', 'tick', 'cursor', 'delayed', 'dedup'] loop
        while v_made < _make_segments.most loop
            select n.* into v_next from mqpg._next_segment(v_family) n;
            exit when not found;
            begin
                return next mqpg._make_segment(v_family, v_next.lower_bound, v_next.upper_bound, v_next.opened);
            exception when lock_not_available then
                return;
            end;
            v_made := v_made + 1;
        end loop;
    end loop;
end
$$;
