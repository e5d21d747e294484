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
    v_done boolean;
begin
    foreach v_family in array array['tick', 'log', 'delayed'] loop
        select m.* into v_merge from mqpg.segment_merge m where m.family = v_family;
        if not found then
            v_nos := mqpg._segments_to_merge(v_family);
            if v_nos is not null then
                return query select b.* from mqpg._begin_merge(v_family, v_nos) b;
                if found then
                    return;
                end if;
            end if;
            continue;
        end if;
        v_done := false;
        for action, family, segment_no, detail in select s.* from mqpg._merge_step(v_merge) s loop
            return next;
            v_done := action <> 'blocked';
            update mqpg.segment_merge m set
                blocked_since = case when not v_done then coalesce(m.blocked_since, clock_timestamp()) end
            where m.family = v_family and v_done = (m.blocked_since is not null);
        end loop;
        -- What is held up must not hold up the other families.
        if v_done then
            return;
        end if;
    end loop;
end
$$;
