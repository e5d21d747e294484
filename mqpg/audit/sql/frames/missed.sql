-- The messages that the newest tick must have given an offset, and that are in no topic's own queue.
select m.message_id, m.topic_id, m.queue_id, m.commit_xid
from message as m
where m.expected and not exists (select from queued as q where q.message_id = m.message_id)
