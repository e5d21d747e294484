-- Reads a range of a queue in one call, as the batches in which it is stored: fetch_range() for programs
-- that take many messages at once, for half the server's time. It claims nothing, and ignores
-- message_ttl, filters and pauses.
-- Arguments: those of fetch_range().
-- Returns: runs of up to 1024 messages, in order. A run has n messages at the offsets and with the ids
-- from queue_offset and message_id on. The n elements of keys, tags, headers and payloads are theirs;
-- keys, tags or headers are null if no message of the run has any.
-- Locks: none.
-- Cost: one index lookup for each run. Rows that do not fit into work_mem are written to a temporary
-- file.
-- Errors: those of fetch_range().
create function mqpg.fetch_batches(
    topic text, queue_id int, from_offset bigint, to_offset bigint, identity text default null
) returns table (
    queue_offset bigint, message_id bigint, n int, keys text [], tags text [], headers jsonb [], payloads json [],
    born_at timestamptz, appended_at timestamptz
)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off as $$
declare
    v_topic mqpg.topic := mqpg._require_topic(fetch_batches.topic, 'read');
    v_identity text := mqpg._require_identity(v_topic, fetch_batches.identity);
    v_oldest bigint;
    v_tail bigint;
    v_runs record;
    v_rows bigint;
begin
    perform mqpg._require_range('queue_id', fetch_batches.queue_id, 0, v_topic.queues - 1);
    perform mqpg._require_range('from_offset', fetch_batches.from_offset, 0, 9223372036854775807);
    perform mqpg._require_range('to_offset', fetch_batches.to_offset, fetch_batches.from_offset,
        least(fetch_batches.from_offset, 9223372036854775807 - 1000000) + 1000000);
    v_tail := mqpg._tail(v_topic.topic_id, fetch_batches.queue_id, 0);
    v_oldest := mqpg._oldest(v_topic.topic_id, fetch_batches.queue_id, 0);
    if fetch_batches.from_offset < v_oldest or fetch_batches.to_offset > v_tail then
        raise exception using errcode = 'MQ013', message = format(
            'from_offset and to_offset must lie between the oldest offset %s and the next offset %s of queue %s, '
            'not %s and %s', v_oldest, v_tail, fetch_batches.queue_id, fetch_batches.from_offset,
            fetch_batches.to_offset);
    end if;
    v_runs := mqpg._timed_runs(
        v_topic.topic_id, fetch_batches.queue_id, fetch_batches.from_offset, fetch_batches.to_offset);
    return query
    select run.first_offset, run.id, run.n, m.keys, m.tags, m.headers, m.payloads, m.born_at, run.at
    from unnest(v_runs.ids, v_runs.bodies, v_runs.offsets, v_runs.lengths, v_runs.times)
        as run(id, body, first_offset, n, at)
    cross join lateral (
        -- A batch that is read whole stays compressed.
        select b.keys, b.tags, b.headers, b.payloads, b.born_at
        from mqpg.commit_log b
        where b.batch_id = run.body / 1024 and b.batch_id between v_runs.lowest and v_runs.highest and b.n = run.n
        union all
        select b.keys[run.body % 1024 + 1:run.body % 1024 + run.n],
            b.tags[run.body % 1024 + 1:run.body % 1024 + run.n],
            b.headers[run.body % 1024 + 1:run.body % 1024 + run.n],
            b.payloads[run.body % 1024 + 1:run.body % 1024 + run.n], b.born_at
        from mqpg.commit_log b
        where b.batch_id = run.body / 1024 and b.batch_id between v_runs.lowest and v_runs.highest and b.n > run.n
        union all
        select array_agg(h.key order by h.message_id), array_agg(h.tag order by h.message_id),
            array_agg(h.headers order by h.message_id), array_agg(h.payload order by h.message_id), min(h.born_at)
        from mqpg.held h
        where v_runs.held and h.message_id >= run.body and h.message_id < run.body + run.n
            and not exists (
                select from mqpg.commit_log b
                where b.batch_id = run.body / 1024 and b.batch_id between v_runs.lowest and v_runs.highest)
        having count(*) = run.n
        offset 0
    ) as m;
    get diagnostics v_rows = row_count;
    if v_rows <> coalesce(cardinality(v_runs.ids), 0) then
        perform mqpg._refuse_missing_body(
            v_topic.name, fetch_batches.queue_id, fetch_batches.from_offset, fetch_batches.to_offset, null);
    end if;
end
$$;
