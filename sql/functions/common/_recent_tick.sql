-- A tick id from which on the newest ticks lie: the lower bound of the tick segment before the one
-- in use. A statement that looks for the newest rows names it first, as a variable, so that the
-- executor leaves out the partitions of older segments.
-- It is plpgsql, not sql, so that its plan is kept.
-- Locks: none. Cost: one index lookup in a small table.
create function mqpg._recent_tick() returns bigint
language plpgsql stable as $$
begin
    return coalesce(min(s.lower_bound::bigint), 0)
    from (
        select k.lower_bound from mqpg.segment k
        where k.family = 'tick' and k.opened_at is not null
        order by k.segment_no desc limit 2
    ) as s;
end
$$;
