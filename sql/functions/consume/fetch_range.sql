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
language plpgsql stable security definer set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off as $$
declare
    v_topic mqpg.topic := mqpg._require_topic(fetch_range.topic, 'read');
    v_identity text := mqpg._require_identity(v_topic, fetch_range.identity);
    v_oldest bigint;
    v_tail bigint;
    v_runs record;
    v_rows bigint;
begin
    perform mqpg._require_range('queue_id', fetch_range.queue_id, 0, v_topic.queues - 1);
    perform mqpg._require_range('from_offset', fetch_range.from_offset, 0, 9223372036854775807);
    perform mqpg._require_range('to_offset', fetch_range.to_offset, fetch_range.from_offset,
        least(fetch_range.from_offset, 9223372036854775807 - 1000000) + 1000000);
    v_tail := mqpg._tail(v_topic.topic_id, fetch_range.queue_id, 0);
    v_oldest := mqpg._oldest(v_topic.topic_id, fetch_range.queue_id, 0);
    if fetch_range.from_offset < v_oldest or fetch_range.to_offset > v_tail then
        raise exception using errcode = 'MQ013', message = format(
            'from_offset and to_offset must lie between the oldest offset %s and the next offset %s of queue %s, '
            'not %s and %s', v_oldest, v_tail, fetch_range.queue_id, fetch_range.from_offset, fetch_range.to_offset);
    end if;
    v_runs := mqpg._timed_runs(v_topic.topic_id, fetch_range.queue_id, fetch_range.from_offset, fetch_range.to_offset);
    return query
    select run.first_offset + m.o - 1, run.id + m.o - 1, m.key, m.tag, m.headers, m.payload, m.born_at, run.at
    from unnest(v_runs.ids, v_runs.bodies, v_runs.offsets, v_runs.lengths, v_runs.times)
        as run(id, body, first_offset, n, at)
    cross join lateral (
        select u.key, u.tag, u.headers, u.payload, b.born_at, u.o
        from mqpg.commit_log b,
            unnest(
                b.payloads[run.body % 1024 + 1:run.body % 1024 + run.n],
                b.keys[run.body % 1024 + 1:run.body % 1024 + run.n],
                b.tags[run.body % 1024 + 1:run.body % 1024 + run.n],
                b.headers[run.body % 1024 + 1:run.body % 1024 + run.n]
            ) with ordinality as u(payload, key, tag, headers, o)
        where b.batch_id = run.body / 1024 and b.batch_id between v_runs.lowest and v_runs.highest
        union all
        select h.key, h.tag, h.headers, h.payload, h.born_at, h.message_id - run.body + 1
        from mqpg.held h
        where v_runs.held and h.message_id >= run.body and h.message_id < run.body + run.n
            and not exists (
                select from mqpg.commit_log b
                where b.batch_id = run.body / 1024 and b.batch_id between v_runs.lowest and v_runs.highest)
        offset 0
    ) as m;
    get diagnostics v_rows = row_count;
    if v_rows <> fetch_range.to_offset - fetch_range.from_offset then
        perform mqpg._refuse_missing_body(
            v_topic.name, fetch_range.queue_id, fetch_range.from_offset, fetch_range.to_offset, v_rows);
    end if;
end
$$;
