-- The ids of messages that are at several offsets of topics' own queues.
select e.message_id
from entry as e
where e.lane = 0
group by 1
having count(*) > 1
