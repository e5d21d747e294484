-- Drops at most one table that was released, because a drop blocks all other transactions until
-- commit. If there is none, it releases at most one table of each family: the oldest ticks, expired
-- bodies or old decisions, closed slots. No family waits for another one, so that a keeper that
-- comes back after a long time makes progress in all of them. It reports what is in use and what
-- cannot be released. With `drops` false the keeper process drops, and only releases are left.
-- Locks: see _drop_partition() and _release_next_table().
-- Cost: one look at what each closed segment is still needed for.
create function mqpg._drop_one_table(drops boolean)
returns table (action text, family text, segment_no bigint, detail text)
language plpgsql as $$
declare
    v_segment mqpg.segment;
    v_tried text [] := '{}';    -- tables that are in use; others wait for each attempt
    v_released text [] := '{}';    -- families
begin
    for v_segment in
        select s.* from mqpg.segment s
        where s.closed_at is not null and s.dropped_at is null and (s.leaving is null or _drop_one_table.drops)
        order by s.leaving is null, array_position(array['tick', 'log', 'cursor', 'delayed', 'dedup'], s.family),
            s.segment_no
    loop
        continue when v_segment.leaving = any(v_tried) or v_segment.family = any(v_released);
        v_tried := v_tried || v_segment.leaving;
        for action, family, segment_no, detail in
            select d.* from mqpg._finish_drop(v_segment.family, v_segment.segment_no) d
            where v_segment.leaving is not null
            union all
            select r.* from mqpg._release_next_table(v_segment) r
            where v_segment.leaving is null
        loop
            return next;
            if action = 'dropped' then
                return;
            elsif action = 'released' then
                v_released := v_released || v_segment.family;
            end if;
            update mqpg.segment s set
                blocked_since = case when action = 'blocked' then coalesce(s.blocked_since, clock_timestamp()) end
            where s.family = v_segment.family and s.segment_no = v_segment.segment_no
                and (action = 'blocked') is distinct from (s.blocked_since is not null);
        end loop;
    end loop;
end
$$;
