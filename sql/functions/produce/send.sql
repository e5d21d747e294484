-- Sends one message in the caller's transaction (protocol T1). The message becomes visible with the
-- first append() after the commit, or when its delay is over.
-- Arguments:
--   topic: name of the topic.
--   payload: the body, JSON as text, json or jsonb; at most the topic's max_payload bytes.
--   key: messages with equal keys go to the same queue, in order; null (default) picks any queue.
--       At most 512 bytes.
--   tag: a word that subscriptions can choose by; at most 512 bytes; default null.
--   headers: a JSON object beside the payload, as text at most max_payload bytes, or 8 KiB if that is
--       more; default null.
--   delay: how long after now the message becomes visible, at most the topic's retention; null
--       (default): at once.
--   dedup_id: an id seen before within the setting dedup_window stores nothing and returns the
--       first message's id, unless that one ended before any delivery (recall, rollback, purge,
--       expiry); default null.
--   deliver_at: the time when the message becomes visible, instead of delay, at most the topic's
--       retention from now; default null.
-- Returns: the message id.
-- Locks: only the new row. With a dedup_id it waits for a running send of the same id.
-- Cost: one row of the commit log.
-- Errors: MQ001 (argument), MQ003 (unknown topic), MQ010 (payload too large), MQ028 (no space),
-- 22P02 (not JSON).
--
-- Example:
--     begin;
--     insert into orders (id, total) values (7, 100);
--     select mqpg.send('orders', '{"id": 7}', key => '7');
--     commit;    -- both or neither
create function mqpg.send(
    topic text, payload text, key text default null, tag text default null, headers jsonb default null,
    delay interval default null, dedup_id text default null, deliver_at timestamptz default null
) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_topic record;
    v_xid xid8;
    v_batch bigint;
    v_checksum bigint;
    v_queue smallint;
    v_now timestamptz;
    v_visible_at timestamptz;   -- null: at once
begin
    -- A message without options is looked up, checked and written by one statement. If it writes nothing,
    -- the call continues below, which says why, or asks more about the caller's right. The two conditions
    -- are apart, so that a message with a key is spared the second, which PostgreSQL prepares as a whole.
    if send.key is null then
        if send.tag is null and send.headers is null and send.delay is null and send.dedup_id is null
            and send.deliver_at is null then
            v_xid := pg_current_xact_id();    -- before the batch id: the appender relies on this order
            v_batch := nextval('mqpg.batch_id');
            v_now := clock_timestamp();    -- with a volatile function in it, the query would be a step of its own
            insert into mqpg.commit_log (batch_id, xid, born_at, topic_id, queue_id, n, kind, payloads, checksum)
            select v_batch, v_xid, v_now, t.topic_id, mqpg._queue_of(v_batch, t.queues), 1, 'n',
                array[send.payload::json],
                case when t.checksums then mqpg._checksum(v_batch, t.topic_id, send.payload, null, null, null) end
            from mqpg.topic t
            where t.name = send.topic and t.full_of is null and octet_length(send.payload) <= t.max_payload
                and mqpg._may(t.senders);
            if found then
                return v_batch * 1024;
            end if;
        end if;
    end if;
    -- Each column costs, so only what every message needs.
    select t.topic_id, t.queues, t.max_payload, t.retention, t.checksums, t.senders into v_topic
    from mqpg.topic t where t.name = send.topic and t.full_of is null;
    if not found or not mqpg._may(v_topic.senders) then
        v_topic := mqpg._require_topic(send.topic, 'send');
    end if;
    if (octet_length(send.payload) <= v_topic.max_payload) is not true then
        perform mqpg._require_payload('payload', send.payload, send.topic, v_topic.max_payload);
    end if;
    if octet_length(send.key) > 512 or octet_length(send.tag) > 512 then
        raise exception using errcode = 'MQ001', message = 'key and tag must not be longer than 512 bytes';
    end if;
    if octet_length(send.headers::text) > v_topic.max_payload then
        perform mqpg._require_headers(array[send.headers], v_topic.max_payload);
    end if;
    if send.delay is not null or send.deliver_at is not null or send.dedup_id is not null then
        if send.deliver_at is null and mqpg._seconds(send.delay) > '0'
            and mqpg._seconds(send.delay) <= mqpg._seconds(v_topic.retention) then
            v_visible_at := clock_timestamp() + mqpg._seconds(send.delay);
        else
            v_visible_at := mqpg._visible_at(v_topic.retention, send.delay, send.deliver_at);
        end if;
        if send.dedup_id is not null then
            return (mqpg._store_deduplicated(
                v_topic.topic_id, v_topic.queues, v_topic.checksums, array[send.payload], array[send.key],
                array[send.tag], array[send.headers], array[send.dedup_id], v_visible_at))[1];
        end if;
    end if;
    -- What _store() does for one message, without its arrays and loop, which would cost more.
    v_xid := pg_current_xact_id();    -- before the batch id: the appender relies on this order
    v_batch := nextval('mqpg.batch_id');
    v_now := clock_timestamp();
    if v_topic.checksums then
        v_checksum := mqpg._checksum(v_batch, v_topic.topic_id, send.payload, send.key, send.tag, send.headers);
    end if;
    if send.key is null then
        v_queue := mqpg._queue_of(v_batch, v_topic.queues);
    else
        v_queue := mqpg._queue_of(send.key, v_topic.queues);
    end if;
    insert into mqpg.commit_log (
        batch_id, xid, born_at, topic_id, queue_id, n, kind, keys, tags, headers, payloads, checksum)
    values (
        v_batch, v_xid, v_now, v_topic.topic_id, v_queue, 1,
        case when v_visible_at is null then 'n'::"char" else 'd' end,
        case when send.key is not null then array[send.key] end,
        case when send.tag is not null then array[send.tag] end,
        case when send.headers is not null then array[send.headers] end,
        array[send.payload::json], v_checksum);
    if v_visible_at is not null then
        insert into mqpg.delayed (visible_at, xid, first_id, n, written_at, topic_id, queue_id)
        select v_visible_at + b.ahead, v_xid, v_batch * 1024, 1, b.written_at, v_topic.topic_id, v_queue
        from mqpg._broker_time(v_now) b;
    end if;
    return v_batch * 1024;
end
$$;

-- The overloads for json and jsonb only turn the payload into text. They run as the caller, with
-- every name qualified, so that a call does not become the owner's twice.
create function mqpg.send(
    topic text, payload json, key text default null, tag text default null, headers jsonb default null,
    delay interval default null, dedup_id text default null, deliver_at timestamptz default null
) returns bigint
language sql as $$
    select mqpg.send(send.topic, send.payload::pg_catalog.text, send.key, send.tag, send.headers, send.delay,
        send.dedup_id, send.deliver_at)
$$;

create function mqpg.send(
    topic text, payload jsonb, key text default null, tag text default null, headers jsonb default null,
    delay interval default null, dedup_id text default null, deliver_at timestamptz default null
) returns bigint
language sql as $$
    select mqpg.send(send.topic, send.payload::pg_catalog.text, send.key, send.tag, send.headers, send.delay,
        send.dedup_id, send.deliver_at)
$$;
