-- Reads a range of a queue in one call, without claiming anything. The offsets of a queue are dense
-- and never change, so a range has the same messages at any time and over any number of
-- connections. It ignores message_ttl, filters and pauses.
-- Arguments:
--   topic: name of the topic.
--   queue_id: the queue, 0 to the topic's queues - 1.
--   from_offset: the first offset, from the queue's oldest one on.
--   to_offset: the offset behind the last one, up to the queue's next one; at most 1000000 after
--       from_offset.
--   identity: what topic_offsets() said of the topic; null (default): not compared.
-- Returns: one row for each offset, in order. appended_at is when the message became visible.
-- Locks: none.
-- Cost: one index lookup for each run of messages. Rows that do not fit into work_mem are written
-- to a temporary file.
-- Errors: MQ001 (argument), MQ003 (unknown topic, or another identity), MQ013 (a part of the range is
-- below the oldest offset or beyond the next one), MQ014 (a body is missing), 40001 (a segment was
-- dropped since the caller's snapshot).
create function mqpg.fetch_range(
    topic text, queue_id int, from_offset bigint, to_offset bigint, identity text default null
) returns table (
    queue_offset bigint, message_id bigint, key text, tag text, headers jsonb, payload json, born_at timestamptz,
    appended_at timestamptz
)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
begin
    return query
    select b.queue_offset + m.i - 1, b.message_id + m.i - 1, m.key, m.tag, m.headers, m.payload, b.born_at,
        b.appended_at
    from mqpg.fetch_batches(
        fetch_range.topic, fetch_range.queue_id, fetch_range.from_offset, fetch_range.to_offset, fetch_range.identity)
        as b
    cross join lateral unnest(b.keys, b.tags, b.headers, b.payloads)
        with ordinality as m(key, tag, headers, payload, i);
end
$$;
