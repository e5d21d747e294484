-- The ids of messages that have an offset in a topic's own queue.
select distinct e.message_id from entry as e where e.lane = 0
