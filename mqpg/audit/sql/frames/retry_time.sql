-- When each retry becomes visible. A redriven message may come several times by the same attempt.
-- Then the earliest time counts.
select d.subscription_id, d.message_id, d.attempt, min(d.visible_at) as visible_at
from delayed as d
where d.subscription_id > 0
group by 1, 2, 3
