-- Finds every stored message of a topic with a given key, oldest first, including undecided,
-- delayed and not yet appended ones.
-- Arguments:
--   topic: name of the topic.
--   key: the key.
-- Returns: state is prepared, rolled_back, committed (decided, not appended yet), relayed
-- (committed in a relay topic, where its phases are messages of their own), delayed, recalled,
-- pending (sent, not appended yet) or appended. payload is the delivered one, also if a commit
-- replaced it.
-- Locks: none. Cost: one index lookup per segment, and a few for each message found.
-- Errors: MQ001 (key is null), MQ002 (name), MQ003 (unknown topic).
create function mqpg.find_by_key(topic text, key text) returns table (
    message_id bigint, queue_id int, queue_offset bigint, state text, born_at timestamptz, payload json
)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_topic mqpg.topic := mqpg._require_topic(find_by_key.topic, 'read');
begin
    if find_by_key.key is null then
        raise exception using errcode = 'MQ001', message = 'key must not be null';
    end if;
    return query
    with hit as (
        select l.batch_id * 1024 + u.i - 1 as message_id, l.topic_id, l.queue_id, l.kind, l.xid, l.born_at,
            l.payloads[u.i] as payload
        from mqpg.commit_log l
        cross join lateral unnest(l.keys) with ordinality as u(key, i)
        where l.keys @> array[find_by_key.key] and l.topic_id = v_topic.topic_id and l.kind in ('n', 'h', 'd')
            and u.key = find_by_key.key
        union all
        select h.message_id, h.topic_id, h.queue_id, h.kind, h.xid, h.born_at, h.payload
        from mqpg.held h
        where h.topic_id = v_topic.topic_id and h.key = find_by_key.key and h.kind in ('n', 'h', 'd')
            and not exists (select from mqpg.commit_log l where l.batch_id = h.message_id >> 10)
    )
    select h.message_id, h.queue_id::int, p.queue_offset, p.state, h.born_at,
        case when p.body_id = h.message_id then h.payload else (select m.payload from mqpg._message(p.body_id) m) end
    from hit h
    cross join lateral mqpg._message_state(h.message_id, h.topic_id, h.queue_id, h.kind, h.xid) p
    order by h.message_id;
end
$$;
