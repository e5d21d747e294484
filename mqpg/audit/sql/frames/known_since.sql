-- Since when the history of each queue's cursor is known. Null where it is complete: it begins with
-- the subscription itself.
select t.subscription_id, t.queue_id, case when t.version > 1 then t.at end as known_since
from transition as t
where t.step = 'first'
