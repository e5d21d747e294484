-- The ids of messages that have an offset in a topic's own queue, and how many they have.
select e.message_id, count(*) as times from entry as e where e.lane = 0 group by 1
