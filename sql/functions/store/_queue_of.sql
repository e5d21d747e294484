-- The queue of a key: the same key always has the same queue.
-- Locks: none. Cost: one hash.
create function mqpg._queue_of(key text, queues int) returns smallint
language sql immutable as $$
    select ((hashtextextended(_queue_of.key, 0) & 9223372036854775807) % _queue_of.queues)::smallint
$$;

-- The queue of a record batch without keys. It hashes the batch id, because decisions take numbers
-- from the same sequence, and a plain remainder would favour some queues.
-- Locks: none. Cost: one hash.
create function mqpg._queue_of(batch_id bigint, queues int) returns smallint
language sql immutable as $$
    select ((hashint8extended(_queue_of.batch_id, 0) & 9223372036854775807) % _queue_of.queues)::smallint
$$;
