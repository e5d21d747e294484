-- Merges neighbouring closed segments into one, a step at a time, and leaves out what is past
-- retention and no longer needed. Each step is a transaction of its own:
--   1. begin: choose the segments, raise the oldest offsets of topics that are past retention, note
--      where queues end, and make new tables that are not attached yet.
--   2. find: when all transactions are over that could have written into the segments, look up what
--      must stay readable (I11) and what may still be decided.
--   3. copy: a piece of one table. The sources do not change any more, apart from decisions and
--      checks of known messages.
--   4. finish: when no snapshot is left that does not see the copied rows, drop the old partitions
--      and attach the new ones in their place. Readers of any snapshot find the same rows before
--      and after.
-- Locks: the caller holds the keeper's; see the steps.
-- Cost: see the steps; a few lookups when there is nothing to merge.
create function mqpg._merge()
returns table (action text, family text, segment_no bigint, detail text)
language plpgsql as $$
declare
    v_merge mqpg.segment_merge;
    v_family text;
    v_nos bigint [];
begin
    foreach v_family in array array['tick', 'log', 'delayed'] loop
        select m.* into v_merge from mqpg.segment_merge m where m.family = v_family;
        if not found then
            v_nos := mqpg._segments_to_merge(v_family);
            if v_nos is not null then
                return query select b.* from mqpg._begin_merge(v_family, v_nos) b;
            end if;
        elsif v_merge.partitions <> mqpg._merged_partitions(v_merge) or exists (
            select from mqpg.segment s
            where s.family = v_family and s.segment_no = any(v_merge.segment_nos) and s.leaving is not null
        ) then
            return query select c.* from mqpg._cancel_merge(v_family, 'a segment is dropped meanwhile') c;
        elsif v_merge.parent = '' and v_merge.copied_xid >= pg_snapshot_xmin(pg_current_snapshot()) then
            return query select 'blocked', v_family, v_merge.segment_nos[1],
                'merge: an older transaction is open; the next keep() tries again';
            continue;
        elsif v_merge.parent = '' then
            return query select f.* from mqpg._find_needed(v_merge) f;
        elsif v_merge.parent is not null then
            return query select c.* from mqpg._copy_to_merge(v_merge) c;
        else
            return query select f.* from mqpg._finish_merge(v_merge) f;
        end if;
        if found then
            return;
        end if;
    end loop;
end
$$;
comment on function mqpg._merge() is 'Internal: one step of merging closed segments';
