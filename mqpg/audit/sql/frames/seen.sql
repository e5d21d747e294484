-- The ids of messages that are in any queue or applied.
select e.message_id from entry as e
union
select f.message_id from effect as f
