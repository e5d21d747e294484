-- The next step of a merge that has begun; see _merge(). It reports `blocked` when open
-- transactions hold it up.
-- Locks, cost: see the steps.
create function mqpg._merge_step(merge mqpg.segment_merge)
returns table (action text, family text, segment_no bigint, detail text)
language plpgsql as $$
declare
    v_merge mqpg.segment_merge := _merge_step.merge;
begin
    if v_merge.partitions <> mqpg._merged_partitions(v_merge) or exists (
        select from mqpg.segment s
        where s.family = v_merge.family and s.segment_no = any(v_merge.segment_nos) and s.leaving is not null
    ) then
        return query select c.* from mqpg._cancel_merge(v_merge.family, 'a segment is dropped meanwhile') c;
    elsif v_merge.parent = '' and v_merge.copied_xid >= pg_snapshot_xmin(pg_current_snapshot()) then
        return query select 'blocked', v_merge.family, v_merge.segment_nos[1],
            'merge: an older transaction is open; the next keep() tries again';
    elsif v_merge.parent = '' then
        return query select f.* from mqpg._find_needed(v_merge) f;
    elsif v_merge.parent is not null then
        return query select c.* from mqpg._copy_to_merge(v_merge) c;
    else
        return query select f.* from mqpg._finish_merge(v_merge) f;
    end if;
end
$$;
