-- Sends many messages of one topic in the caller's transaction. An empty batch returns nothing, and
-- a batch with an invalid element raises as a whole.
-- Arguments:
--   topic: name of the topic.
--   payloads: the bodies, JSON as text, json or jsonb; none may be null.
--   keys, tags, headers, dedup_ids: null (default), or arrays as long as payloads; an element may
--       be null. Each means what it means in send().
--   delay: how long after now the messages become visible, at most the topic's retention; null
--       (default): at once.
-- Returns: the message ids, in argument order.
-- Locks: only the new rows. With dedup_ids it waits for running sends of the same ids.
-- Cost: one row of the commit log for up to 1024 messages or about 256 KiB; with keys, one row for
-- each queue.
-- Errors: MQ001 (argument), MQ003 (unknown topic), MQ010 (payload too large), MQ028 (no space),
-- 22P02 (not JSON).
--
-- Example:
--     select mqpg.send_batch('orders', array['{"id": 7}', '{"id": 8}'], keys => array['7', '8']);
create function mqpg.send_batch(
    topic text, payloads text [], keys text [] default null, tags text [] default null,
    headers jsonb [] default null, delay interval default null, dedup_ids text [] default null
) returns setof bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off as $$
declare
    v_topic record;
    v_n int := cardinality(send_batch.payloads);
    v_xid xid8;
    v_batch bigint;
    v_checksum bigint;
    v_visible_at timestamptz;
begin
    -- Each column costs, so only what is needed.
    select t.topic_id, t.queues, t.max_payload, t.retention, t.checksums, t.senders into v_topic
    from mqpg.topic t where t.name = send_batch.topic and t.full_of is null;
    if not found or not mqpg._may(v_topic.senders) then
        v_topic := mqpg._require_topic(send_batch.topic, 'send');
    end if;
    perform mqpg._require_batch(
        send_batch.topic, v_topic.max_payload, send_batch.payloads, send_batch.keys, send_batch.tags, send_batch.headers);
    if send_batch.dedup_ids is not null then
        perform mqpg._require_shape('dedup_ids', send_batch.dedup_ids, v_n);
    end if;
    if send_batch.delay is not null then
        v_visible_at := mqpg._visible_at(v_topic.retention, send_batch.delay, null);
    end if;
    if v_n = 0 then
        return;
    end if;
    if cardinality(array_remove(send_batch.dedup_ids, null)) > 0 then
        return query select unnest(mqpg._store_deduplicated(
            v_topic.topic_id, v_topic.queues, v_topic.checksums, send_batch.payloads, send_batch.keys,
            send_batch.tags, send_batch.headers, send_batch.dedup_ids, v_visible_at));
    elsif v_visible_at is not null or v_n > 1024 or pg_column_size(send_batch.payloads) > 262144
        or cardinality(array_remove(send_batch.keys, null)) > 0 then
        return query select unnest(mqpg._store(
            v_topic.topic_id, v_topic.queues, v_topic.checksums, send_batch.payloads, send_batch.keys,
            send_batch.tags, send_batch.headers, v_visible_at));
    else
        v_xid := pg_current_xact_id();    -- before the batch id: the appender relies on this order
        v_batch := nextval('mqpg.batch_id');
        if v_topic.checksums then
            v_checksum := mqpg._checksum(
                v_batch, v_topic.topic_id, send_batch.payloads, null, send_batch.tags, send_batch.headers);
        end if;
        insert into mqpg.commit_log (
            batch_id, xid, born_at, topic_id, queue_id, n, kind, tags, headers, payloads, checksum)
        values (
            v_batch, v_xid, clock_timestamp(), v_topic.topic_id, mqpg._queue_of(v_batch, v_topic.queues), v_n, 'n',
            case when cardinality(array_remove(send_batch.tags, null)) > 0 then send_batch.tags[:] end,
            case when cardinality(array_remove(send_batch.headers, null)) > 0 then send_batch.headers[:] end,
            send_batch.payloads[:]::json [], v_checksum);
        return query select v_batch * 1024 + i from generate_series(0, v_n - 1) as i;
    end if;
end
$$;

-- The overloads for json and jsonb only turn the payload into text. They run as the caller, with
-- every name qualified, so that a call does not become the owner's twice.
create function mqpg.send_batch(
    topic text, payloads json [], keys text [] default null, tags text [] default null,
    headers jsonb [] default null, delay interval default null, dedup_ids text [] default null
) returns setof bigint
language sql as $$
    select mqpg.send_batch(send_batch.topic, send_batch.payloads::pg_catalog.text [], send_batch.keys, send_batch.tags,
        send_batch.headers, send_batch.delay, send_batch.dedup_ids)
$$;

create function mqpg.send_batch(
    topic text, payloads jsonb [], keys text [] default null, tags text [] default null,
    headers jsonb [] default null, delay interval default null, dedup_ids text [] default null
) returns setof bigint
language sql as $$
    select mqpg.send_batch(send_batch.topic, send_batch.payloads::pg_catalog.text [], send_batch.keys, send_batch.tags,
        send_batch.headers, send_batch.delay, send_batch.dedup_ids)
$$;
