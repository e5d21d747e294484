-- Stores a half message, which stays invisible until commit() (protocol T2, step 1). Call it in a
-- transaction of its own, and commit that before the local transaction begins. That commit is
-- flushed to disk whatever the session's synchronous_commit says.
-- In a relay topic a message with the PREPARE also goes to the consumers (protocol T4).
-- Arguments:
--   topic: name of the topic.
--   payload: the body, JSON as text, json or jsonb; at most the topic's max_payload bytes.
--   producer_group: name of the group that says how the half message is checked back.
--   key, tag, headers: as in send(); default null.
--   check_after: how long after now the half message is checked back while it is undecided, at
--       least 10 ms and at most the topic's retention; null (default): the group's check_after.
--   delay: how long after the commit the message becomes visible, at most the topic's retention;
--       null (default): at once.
--   dedup_id: an id seen before within the setting dedup_window stores nothing and returns the
--       first half message's handle; default null.
--   ledger: the identity of the ledger in another database in which the local transaction writes
--       its row, eight hexadecimal digits. Only a compensator that serves this ledger decides the
--       half message. Null (default): the ledger that the group's checker names.
-- Returns: the handle, opaque text. It is a secret.
-- Locks: only the new row. With a dedup_id it waits for a running prepare() with the same id.
-- Cost: one row of the commit log.
-- Errors: MQ001 (argument), MQ003 (unknown topic), MQ004 (unknown group), MQ010 (payload too
-- large), MQ018 (a message of send() has the dedup_id), MQ026 (the group has too many undecided half
-- messages), MQ028 (no space), 22P02 (not JSON).
--
-- Example:
--     select mqpg.prepare('orders', '{"id": 7}', 'shop', key => '7');    -- commit, then:
--     -- the local transaction, which records the handle; when it is committed:
--     select mqpg.commit('<handle>');
create function mqpg.prepare(
    topic text, payload text, producer_group text, key text default null, tag text default null,
    headers jsonb default null, check_after interval default null, delay interval default null,
    dedup_id text default null, ledger text default null
) returns text
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_to record;
    v_xid xid8;
    v_batch bigint;
    v_first text;
    v_checksum bigint;
    v_queue smallint;
    v_broker record;
    v_now timestamptz;
    v_secret uuid;
    v_relay boolean;
begin
    -- A half message without options is looked up, checked and written by one statement, as in send(). If it
    -- writes nothing, the call continues below.
    if prepare.key is null then
        if prepare.tag is null and prepare.headers is null and prepare.check_after is null
            and prepare.delay is null and prepare.dedup_id is null and prepare.ledger is null
            and current_setting('synchronous_commit') not in ('off', 'local') then
            select b.broker_id, b.incarnation into v_broker from mqpg.broker b;
            if not found then
                perform mqpg._require_rows();
            end if;
            v_xid := pg_current_xact_id();    -- before the batch id: the appender relies on this order
            v_batch := nextval('mqpg.batch_id');
            -- With a volatile function in it, the query would be a step of its own.
            v_now := clock_timestamp();
            v_secret := gen_random_uuid();
            -- Without `offset 0` each execution would describe all columns of the tables.
            insert into mqpg.commit_log (
                batch_id, xid, born_at, topic_id, producer_group_id, incarnation, queue_id, n, kind, nonce, check_at,
                payloads, relay, checksum)
            select v_batch, v_xid, v_now, t.topic_id, g.producer_group_id, v_broker.incarnation,
                mqpg._queue_of(v_batch, t.queues), 1, 'h', v_secret, v_now + g.check_after, array[prepare.payload::json],
                t.relay,
                case
                    when t.checksums then mqpg._checksum(
                        v_batch, t.topic_id, prepare.payload, null, null, null, g.producer_group_id,
                        v_now + g.check_after - v_now)
                end
            from (
                select t.topic_id, t.queues, t.retention, t.checksums, t.senders,
                    nullif(t.kind = 'relay', false) as relay
                from mqpg.topic t
                where t.name = prepare.topic and t.full_of is null
                    and octet_length(prepare.payload) <= t.max_payload
                offset 0) as t
            cross join (
                select g.producer_group_id, g.check_after, g.producers
                from mqpg.producer_group g
                where g.name = prepare.producer_group and g.overfull_at is null offset 0) as g
            where g.check_after <= t.retention and mqpg._may(t.senders, g.producers)
            returning relay into v_relay;
            if found then
                if v_relay then
                    perform mqpg._relay_prepares(array[v_batch]);
                end if;
                return mqpg._handle(v_broker.broker_id, v_broker.incarnation, v_batch * 1024, v_secret);
            end if;
        end if;
    end if;
    -- Without `offset 0` each execution would describe all columns of the three tables.
    select gen_random_uuid() as secret, clock_timestamp() as now, t.*, g.*, b.*
    into v_to
    from (select b.broker_id, b.incarnation from mqpg.broker b offset 0) as b
    cross join (
        select t.topic_id, t.kind, t.queues, t.max_payload, t.retention, t.checksums, t.senders
        from mqpg.topic t where t.name = prepare.topic and t.full_of is null offset 0) as t
    cross join (
        select g.producer_group_id, g.check_after, g.producers
        from mqpg.producer_group g
        where g.name = prepare.producer_group and g.overfull_at is null offset 0) as g;
    if not found or not mqpg._may(v_to.senders, v_to.producers) then
        if v_to.topic_id is null and prepare.dedup_id is not null then
            v_first := mqpg._prepared_without_room(prepare.topic, prepare.producer_group, prepare.dedup_id);
            if v_first is not null then
                return v_first;
            end if;
        end if;
        perform mqpg._require_topic(prepare.topic, 'send'), mqpg._require_producer_group(prepare.producer_group);
        perform mqpg._require_room(prepare.producer_group);
        if v_to.topic_id is null then
            perform mqpg._require_rows();
            raise exception using errcode = '40001', message = 'the topic has space, or the group room, since now';
        end if;
    end if;
    if (octet_length(prepare.payload) <= v_to.max_payload) is not true then
        perform mqpg._require_payload('payload', prepare.payload, prepare.topic, v_to.max_payload);
    end if;
    if octet_length(prepare.key) > 512 or octet_length(prepare.tag) > 512 then
        raise exception using errcode = 'MQ001', message = 'key and tag must not be longer than 512 bytes';
    end if;
    if octet_length(prepare.headers::text) > v_to.max_payload then
        perform mqpg._require_headers(array[prepare.headers], v_to.max_payload);
    end if;
    if prepare.check_after is not null or prepare.delay is not null or v_to.check_after > v_to.retention
        or prepare.ledger is not null then
        if prepare.ledger is not null then
            v_to.secret := mqpg._secret_with(prepare.ledger, v_to.secret);
        end if;
        if prepare.check_after is not null or prepare.delay is not null or v_to.check_after > v_to.retention then
            perform mqpg._require_half_times(
                mqpg._topic(prepare.topic), coalesce(prepare.check_after, v_to.check_after), prepare.delay);
            prepare.check_after := mqpg._seconds(prepare.check_after);
            prepare.delay := mqpg._seconds(prepare.delay);
        end if;
    end if;
    -- Looked up first, because this is rarely true and saves a call.
    if current_setting('synchronous_commit') in ('off', 'local') then
        perform mqpg._force_sync();
    end if;
    v_xid := pg_current_xact_id();    -- before the batch id: the appender relies on this order
    v_batch := nextval('mqpg.batch_id');
    if prepare.dedup_id is not null then
        v_first := mqpg._prepared_before(v_to.topic_id, prepare.dedup_id, v_batch * 1024, v_to.producer_group_id);
        if v_first is not null then
            return v_first;
        end if;
    end if;
    if v_to.checksums then
        -- The audit has only check_at - born_at, which is not the interval as it was given.
        v_checksum := mqpg._checksum(
            v_batch, v_to.topic_id, prepare.payload, prepare.key, prepare.tag, prepare.headers,
            v_to.producer_group_id, v_to.now + coalesce(prepare.check_after, v_to.check_after) - v_to.now);
    end if;
    if prepare.key is null then
        v_queue := mqpg._queue_of(v_batch, v_to.queues);
    else
        v_queue := mqpg._queue_of(prepare.key, v_to.queues);
    end if;
    insert into mqpg.commit_log (
        batch_id, xid, born_at, topic_id, producer_group_id, incarnation, queue_id, n, kind, nonce, check_at, delay,
        keys, tags, headers, payloads, relay, checksum)
    values (
        v_batch, v_xid, v_to.now, v_to.topic_id, v_to.producer_group_id, v_to.incarnation,
        v_queue, 1, 'h', v_to.secret, v_to.now + coalesce(prepare.check_after, v_to.check_after),
        nullif(prepare.delay, interval '0'),
        case when prepare.key is not null then array[prepare.key] end,
        case when prepare.tag is not null then array[prepare.tag] end,
        case when prepare.headers is not null then array[prepare.headers] end,
        array[prepare.payload::json], case when v_to.kind = 'relay' then true end, v_checksum);
    if v_to.kind = 'relay' then
        perform mqpg._relay_prepares(array[v_batch]);
    end if;
    return mqpg._handle(v_to.broker_id, v_to.incarnation, v_batch * 1024, v_to.secret);
end
$$;

-- The overloads for json and jsonb only turn the payload into text. They run as the caller, with
-- every name qualified, so that a call does not become the owner's twice.
create function mqpg.prepare(
    topic text, payload json, producer_group text, key text default null, tag text default null,
    headers jsonb default null, check_after interval default null, delay interval default null,
    dedup_id text default null, ledger text default null
) returns text
language sql as $$
    select mqpg.prepare(prepare.topic, prepare.payload::pg_catalog.text, prepare.producer_group, prepare.key, prepare.tag,
        prepare.headers, prepare.check_after, prepare.delay, prepare.dedup_id, prepare.ledger)
$$;

create function mqpg.prepare(
    topic text, payload jsonb, producer_group text, key text default null, tag text default null,
    headers jsonb default null, check_after interval default null, delay interval default null,
    dedup_id text default null, ledger text default null
) returns text
language sql as $$
    select mqpg.prepare(prepare.topic, prepare.payload::pg_catalog.text, prepare.producer_group, prepare.key, prepare.tag,
        prepare.headers, prepare.check_after, prepare.delay, prepare.dedup_id, prepare.ledger)
$$;
