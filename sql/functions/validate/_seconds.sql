-- A time span as exact seconds. PostgreSQL's days follow the calendar: where the session's time zone
-- changes its clocks, `time + interval '90 days'` may be an hour off. A span beyond all limits stays as
-- it is, for the check that refuses it.
-- Locks: none. Cost: negligible (inlined).
create function mqpg._seconds(span interval) returns interval
language sql immutable as $$
    select case
        when _seconds.span between interval '-100 years' and interval '100 years'
            then make_interval(secs => date_part('epoch', _seconds.span))
        else _seconds.span
    end
$$;
