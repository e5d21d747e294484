-- Reads a queue from an offset without claiming anything, for consumers that store their offset in
-- their own database (C2). At the end of the queue it returns nothing. In its rows receipt is null
-- and attempt is 1. It ignores message_ttl, filters and pauses.
-- Arguments:
--   topic: name of the topic.
--   queue_id: the queue, 0 to the topic's queues - 1.
--   from_offset: the first offset to read, from the queue's oldest one to its next one.
--   max_messages: return at most so many, 1 to 10000; default 100.
-- Locks: none.
-- Cost: one index lookup for each run of messages.
-- Errors: MQ001 (argument), MQ003 (unknown topic), MQ013 (from_offset is below the oldest offset or
-- beyond the next one), MQ014 (a body is missing), 40001 (a segment was dropped since the caller's
-- snapshot).
create function mqpg.fetch(topic text, queue_id int, from_offset bigint, max_messages int default 100)
returns setof mqpg.delivery
language plpgsql stable security definer set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off as $$
declare
    v_topic mqpg.topic := mqpg._require_topic("fetch".topic, 'read');
    v_oldest bigint;
    v_tail bigint;
    v_until bigint;
    v_runs record;
    v_rows bigint;
begin
    perform mqpg._require_range('queue_id', "fetch".queue_id, 0, v_topic.queues - 1);
    perform mqpg._require_range('from_offset', "fetch".from_offset, 0, 9223372036854775807);
    perform mqpg._require_range('max_messages', "fetch".max_messages, 1, 10000);
    v_tail := mqpg._tail(v_topic.topic_id, "fetch".queue_id, 0);
    v_oldest := mqpg._oldest(v_topic.topic_id, "fetch".queue_id, 0);
    if "fetch".from_offset not between v_oldest and v_tail then
        raise exception using errcode = 'MQ013', message = format(
            'from_offset must be between the oldest offset %s and the next offset %s of queue %s, not %s', v_oldest,
            v_tail, "fetch".queue_id, "fetch".from_offset);
    end if;
    v_until := least("fetch".from_offset + "fetch".max_messages, v_tail);
    v_runs := mqpg._runs(v_topic.topic_id, "fetch".queue_id, 0, "fetch".from_offset, v_until);
    if exists (
        select from mqpg.held h
        where h.message_id >= v_runs.lowest * 1024 and h.message_id < v_runs.highest * 1024 + 1024
    ) then
        return query
        select d.* from mqpg._deliveries_with_survivors(
            v_topic.name, "fetch".queue_id, 1, null, null, null, v_runs.ids, v_runs.bodies, v_runs.offsets,
            v_runs.lengths, v_runs.attempts, v_runs.lowest, v_runs.highest) as d;
    else
        return query
        select d.* from mqpg._deliveries(
            v_topic.name, "fetch".queue_id, 1, null, null, null, v_runs.ids, v_runs.bodies, v_runs.offsets,
            v_runs.lengths, v_runs.attempts, v_runs.lowest, v_runs.highest) as d;
    end if;
    get diagnostics v_rows = row_count;
    if v_rows <> v_until - "fetch".from_offset then
        perform mqpg._refuse_missing_body(v_topic.name, "fetch".queue_id, "fetch".from_offset, v_until, v_rows);
    end if;
end
$$;
