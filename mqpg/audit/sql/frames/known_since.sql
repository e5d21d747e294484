-- Since when the history of each queue's cursor is known. Null where it is complete: it begins with
-- the subscription itself. If the clock went back, later times may be of before.
select t.subscription_id, t.queue_id, case when t.version > 1 then t.at + s.back end as known_since
from transition as t
cross join setback as s
where t.step = 'first'
