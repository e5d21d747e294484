-- The broker's time at the newest tick, or null before the first one. It is plpgsql, not sql, so that a
-- query that rarely calls it does not set up its plan each time.
-- Locks: none. Cost: one index lookup.
create function mqpg._newest_due() returns timestamptz
language plpgsql stable as $$
begin
    return t.due_until from mqpg.tick t order by t.tick_id desc limit 1;
end
$$;
