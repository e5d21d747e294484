-- The queue of a key: same key, same queue.
-- Locks: none. Cost: one hash.
create function mqpg._queue_of(key text, queues int) returns smallint
language sql immutable as $$
    select ((hashtextextended(_queue_of.key, 0) & 9223372036854775807) % _queue_of.queues)::smallint
$$;
comment on function mqpg._queue_of(text, int) is 'Internal: queue of a key';

-- The queue of a batch without keys: a hash of its id, since decisions draw from the same sequence and a
-- plain remainder would favour some queues.
create function mqpg._queue_of(batch_id bigint, queues int) returns smallint
language sql immutable as $$
    select ((hashint8extended(_queue_of.batch_id, 0) & 9223372036854775807) % _queue_of.queues)::smallint
$$;
comment on function mqpg._queue_of(bigint, int) is 'Internal: queue of a batch without keys';
