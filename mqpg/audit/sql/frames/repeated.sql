-- The ids of messages that are at several offsets of topics' own queues.
select q.message_id from queued as q where q.times > 1
