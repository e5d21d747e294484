-- From when on all cursors of a subscription are known, by the server's clock and by the broker's time.
-- Null: since it began. If the clock went back, later times may be of before.
select
    o.subscription_id,
    max(case when not o.whole then o.at + s.back end) as at,
    max(case when not o.whole then o.at + s.back + s.ahead end) as written_at
from origin as o
cross join setback as s
group by 1
