-- By how much the server's clock was behind an earlier tick at most, at a tick or at the audit (back), and by
-- how much the broker's time, in which delayed messages are written, was ahead of it at most (ahead). Both are
-- a century at most: no clock is wrong by more, and a time minus either is still a time.
select
    least(greatest(max(k.latest - k.at_after), interval '0 seconds'), interval '36500 days') as back,
    least(greatest(max(k.due_until - k.at), interval '0 seconds'), interval '36500 days') as ahead
from (
    select
        t.at, t.due_until,
        max(t.at) over (order by t.tick_id rows between unbounded preceding and current row) as latest,
        coalesce(lead(t.at) over (order by t.tick_id), u.taken_at) as at_after
    from tick as t
    cross join run as u
) as k
