-- For rows of the table delayed: by how much the broker's time is ahead of the server's clock, as exact
-- seconds, and when such a row is written, in the broker's time. `ahead` is 0 unless the clock went
-- back. append() may not have noticed yet, so the newest tick counts, too. The mark says that it is in
-- the future. It may be that of an append() that was rolled back, so then the tick is looked up. If no
-- keeper has made partitions for days, `written_at` is the end of the last one, less a millisecond for
-- the times of purges (see purge_topic()).
-- Locks: none. Cost: two rows read; a third one if the clock went back. The planner puts it in place
-- of the call, if `at` is a variable.
create function mqpg._broker_time(at timestamptz) returns table (ahead interval, written_at timestamptz)
language sql stable as $$
    select b.ahead, least(_broker_time.at + b.ahead, b.delayed_until - interval '1 millisecond')
    from (
        select case
            when to_timestamp(m.last_value * float8 '1e-6') > _broker_time.at + coalesce(c.ahead, '0')
                then mqpg._time_ahead(_broker_time.at, c.ahead)
            else coalesce(c.ahead, '0')
        end as ahead, c.delayed_until
        from mqpg.due_mark m left join mqpg.clock c on true
        offset 0
    ) as b
$$;
