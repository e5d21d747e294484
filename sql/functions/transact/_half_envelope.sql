-- The topic, queue, delay, key, tag and headers of a half message; also when its segment was
-- dropped.
-- Locks: none. Cost: one row of the commit log.
create function mqpg._half_envelope(message_id bigint)
returns table (topic_id int, queue_id smallint, delay interval, key text, tag text, headers jsonb)
language sql stable as $$
    select l.topic_id, l.queue_id, l.delay, l.keys[_half_envelope.message_id % 1024 + 1],
        l.tags[_half_envelope.message_id % 1024 + 1], l.headers[_half_envelope.message_id % 1024 + 1]
    from mqpg.commit_log l
    where l.batch_id = _half_envelope.message_id / 1024
    union all
    select h.topic_id, h.queue_id, h.delay, h.key, h.tag, h.headers
    from mqpg.held h
    where h.message_id = _half_envelope.message_id
        and not exists (select from mqpg.commit_log l where l.batch_id = _half_envelope.message_id / 1024)
$$;
