-- By how much the server's clock was behind an earlier tick at most, at a tick or at the audit (back), and by
-- how much the broker's time, in which delayed messages are written, was ahead of it at most (ahead).
select
    coalesce(max(case when k.latest > k.at_after then k.latest - k.at_after end), interval '0 seconds') as back,
    coalesce(max(case when k.due_until > k.at then k.due_until - k.at end), interval '0 seconds') as ahead
from (
    select
        t.at, t.due_until,
        max(t.at) over (order by t.tick_id rows between unbounded preceding and current row) as latest,
        coalesce(lead(t.at) over (order by t.tick_id), u.taken_at) as at_after
    from tick as t
    cross join run as u
) as k
