-- Makes the partitions of one segment, and its row in segment.
-- Locks: SHARE UPDATE EXCLUSIVE on the parents, each waited for at most 200 ms.
-- Cost: DDL for each table of the family.
-- Errors: 55P03.
create function mqpg._make_segment(family text, lower_bound text, upper_bound text, opened boolean)
returns mqpg.segment
language plpgsql as $$
declare
    v_segment mqpg.segment;
    v_table record;
begin
    insert into mqpg.segment (family, segment_no, lower_bound, upper_bound, opened_at)
    select _make_segment.family, coalesce(max(s.segment_no), 0) + 1, _make_segment.lower_bound,
        _make_segment.upper_bound, case when _make_segment.opened then clock_timestamp() end
    from mqpg.segment s where s.family = _make_segment.family
    returning * into v_segment;
    for v_table in select f.parent, f.per_unit from mqpg._family_tables(_make_segment.family) f loop
        perform mqpg._make_partition(v_table.parent, v_segment.segment_no,
            mqpg._scaled_bound(v_segment.lower_bound, v_table.per_unit),
            mqpg._scaled_bound(v_segment.upper_bound, v_table.per_unit));
    end loop;
    if v_segment.family = 'delayed' then
        update mqpg.clock c set delayed_until = v_segment.upper_bound::timestamptz;
    end if;
    return v_segment;
end
$$;
