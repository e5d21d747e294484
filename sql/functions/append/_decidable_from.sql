-- The lowest id of a message about which a decision may still come, or whose decision may have no
-- offset yet. A statement that looks for new decisions names it as a variable, so that the executor
-- leaves out the partitions of older segments.
-- It is plpgsql, not sql, so that its plan is kept.
-- Locks: none. Cost: one index lookup.
create function mqpg._decidable_from() returns bigint
language plpgsql stable as $$
begin
    return coalesce((
        select s.lower_bound::bigint * 1024 from mqpg.segment s
        where s.family = 'log' and s.decided_at is null and s.dropped_at is null
        order by s.segment_no limit 1), 0);
end
$$;
