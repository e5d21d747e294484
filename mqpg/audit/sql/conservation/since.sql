-- From when on all cursors of a subscription are known. Null: since it began.
select o.subscription_id, max(case when not o.whole then o.at end) as at
from origin as o
group by 1
