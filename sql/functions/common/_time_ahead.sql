-- By how much the broker's time is ahead of the server's at the time `at`, if the newest tick may be in
-- the future; `ahead` is what append() has noticed. It is plpgsql, not sql, so that a query that rarely
-- calls it does not set up its plan each time.
-- Locks: none. Cost: one index lookup.
create function mqpg._time_ahead(at timestamptz, ahead interval) returns interval
language plpgsql stable as $$
begin
    return make_interval(secs => date_part('epoch', greatest(
        _time_ahead.at + coalesce(_time_ahead.ahead, '0'),
        (select t.due_until from mqpg.tick t order by t.tick_id desc limit 1)) - _time_ahead.at));
end
$$;
