-- Gives up a merge of segments: the new tables are dropped, and the segments stay as they are.
-- Locks: ACCESS EXCLUSIVE on the new tables, which nobody else uses.
-- Cost: DDL.
create function mqpg._cancel_merge(kind text, why text)
returns table (action text, family text, segment_no bigint, detail text)
language plpgsql as $$
declare
    v_merge mqpg.segment_merge;
    v_parent text;
begin
    delete from mqpg.segment_merge m where m.family = _cancel_merge.kind returning m.* into v_merge;
    if not found then
        return;
    end if;
    for v_parent in select f.parent from mqpg._family_tables(v_merge.family) f loop
        execute format('drop table if exists mqpg.%I', mqpg._merge_name(v_parent, v_merge.segment_nos[1]));
    end loop;
    return query select 'pinned', v_merge.family, v_merge.segment_nos[1], 'merge given up: ' || _cancel_merge.why;
end
$$;
