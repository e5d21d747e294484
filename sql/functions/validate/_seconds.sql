-- A time span as exact seconds. PostgreSQL's days follow the calendar: where the session's time zone
-- changes its clocks, `time + interval '90 days'` may be an hour off.
-- Locks: none. Cost: negligible (inlined).
create function mqpg._seconds(span interval) returns interval
language sql immutable as $$
    select make_interval(secs => extract(epoch from _seconds.span)::float8)
$$;
