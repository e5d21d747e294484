-- A tick id from which on the newest ticks lie: the lower bound of the tick segment before the one
-- in use. A statement that looks for the newest rows names it first, as a variable, so that the
-- executor leaves out the partitions of older segments.
-- It is plpgsql, not sql, so that its plan is kept.
-- Locks: none. Cost: one index lookup in a small table.
create function mqpg._recent_tick() returns bigint
language plpgsql stable as $$
begin
    return coalesce((
        select s.lower_bound::bigint from mqpg.segment s
        where s.family = 'tick' and s.opened_at is not null
        order by s.segment_no desc offset 1 limit 1), 0);
end
$$;
