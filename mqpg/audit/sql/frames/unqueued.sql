-- The ids of messages that are in a retry lane or applied, and in no topic's own queue.
select e.message_id
from entry as e
where e.lane > 0 and not exists (select from queued as q where q.message_id = e.message_id)
union
select f.message_id
from effect as f
where not coalesce(f.expected, false) and not exists (select from queued as q where q.message_id = f.message_id)
union
select f.message_id
from effect as f
join missed as m on m.message_id = f.message_id
