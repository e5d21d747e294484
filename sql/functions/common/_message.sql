-- What is stored of one message: from its record batch or, if the segment is dropped, from the
-- table held. No row if neither has it.
-- Locks: none. Cost: one row of the commit log.
create function mqpg._message(message_id bigint) returns table (
    topic_id int, queue_id smallint, producer_group_id int, kind "char", xid xid8, nonce uuid, key text, tag text,
    headers jsonb, payload json, delay interval, check_at timestamptz, born_at timestamptz, incarnation int,
    survived boolean
)
language sql stable as $$
    select l.topic_id, l.queue_id, l.producer_group_id, l.kind, l.xid, l.nonce, l.keys[p.i], l.tags[p.i],
        l.headers[p.i], l.payloads[p.i], l.delay, l.check_at, l.born_at, l.incarnation, false
    from (values (_message.message_id % 1024 + 1)) as p(i)
    join mqpg.commit_log l on l.batch_id = _message.message_id / 1024 and p.i <= l.n
    union all
    select h.topic_id, h.queue_id, h.producer_group_id, h.kind, h.xid, h.nonce, h.key, h.tag, h.headers, h.payload,
        h.delay, h.check_at, h.born_at, h.incarnation, true
    from mqpg.held h
    where h.message_id = _message.message_id
    limit 1
$$;
