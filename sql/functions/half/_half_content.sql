-- The content of a half message, which its final payload or the phases of a relay topic carry on; also
-- when its segment was dropped.
-- Locks: none. Cost: one row of the commit log.
create function mqpg._half_content(message_id bigint) returns table (
    topic_id int, queue_id smallint, incarnation int, nonce uuid, delay interval, key text, tag text, headers jsonb,
    payload json
)
language sql stable as $$
    select l.topic_id, l.queue_id, l.incarnation, l.nonce, l.delay, l.keys[p.i], l.tags[p.i], l.headers[p.i],
        l.payloads[p.i]
    from (values (_half_content.message_id % 1024 + 1)) as p(i)
    join mqpg.commit_log l on l.batch_id = _half_content.message_id / 1024
    union all
    select h.topic_id, h.queue_id, h.incarnation, h.nonce, h.delay, h.key, h.tag, h.headers, h.payload
    from mqpg.held h
    where h.message_id = _half_content.message_id
        and not exists (select from mqpg.commit_log l where l.batch_id = _half_content.message_id / 1024)
$$;
