-- Ticks that say that they appended another number of messages than the queues have of them.
select t.tick_id, t.messages, t.appended
from tick as t
where t.appended <> t.messages
order by 1
limit %s
