-- Stores many half messages of one topic. Each is decided independently.
-- Arguments:
--   topic: name of the topic.
--   payloads: the bodies, JSON as text, json or jsonb; none may be null. An empty array returns
--       nothing.
--   producer_group: name of the group that says how the half messages are checked back.
--   keys, tags, headers: null (default), or arrays as long as payloads; an element may be null.
--   check_after, delay, ledger: as in prepare(), for all of them; default null.
-- Returns: the handles, in argument order.
-- Locks: only the new rows.
-- Cost: one row of the commit log for up to 1024 messages or about 256 KiB; with keys, one row for
-- each queue.
-- Errors: MQ001 (argument), MQ003 (unknown topic), MQ004 (unknown group), MQ010 (payload too
-- large), MQ026 (the group has too many undecided half messages), MQ028 (no space), 22P02 (not JSON).
create function mqpg.prepare_batch(
    topic text, payloads text [], producer_group text, keys text [] default null, tags text [] default null,
    headers jsonb [] default null, check_after interval default null, delay interval default null,
    ledger text default null
) returns setof text
language plpgsql security definer set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off as $$
declare
    v_topic mqpg.topic := mqpg._require_topic(prepare_batch.topic, 'send');
    v_group mqpg.producer_group := mqpg._require_producer_group(prepare_batch.producer_group);
    v_secret uuid := gen_random_uuid();
    v_broker record;
    v_ids bigint [];
begin
    perform mqpg._require_batch(
        prepare_batch.topic, v_topic.max_payload, prepare_batch.payloads, prepare_batch.keys, prepare_batch.tags, prepare_batch.headers);
    perform mqpg._require_half_times(
        v_topic, coalesce(prepare_batch.check_after, v_group.check_after), prepare_batch.delay);
    if cardinality(prepare_batch.payloads) = 0 then
        return;
    end if;
    if prepare_batch.ledger is not null or v_group.overfull_at is not null then
        v_secret := mqpg._secret_with(prepare_batch.ledger, v_secret);
        perform mqpg._require_room(v_group.name);
    end if;
    perform mqpg._force_sync();
    select b.broker_id, b.incarnation into v_broker from mqpg.broker b;
    if not found then
        perform mqpg._require_rows();
    end if;
    v_ids := mqpg._store(
        v_topic.topic_id, v_topic.queues, v_topic.checksums, prepare_batch.payloads, prepare_batch.keys,
        prepare_batch.tags, prepare_batch.headers,
        producer_group_id => v_group.producer_group_id, incarnation => v_broker.incarnation, nonce => v_secret,
        check_at => clock_timestamp() + mqpg._seconds(coalesce(prepare_batch.check_after, v_group.check_after)),
        delay => mqpg._seconds(nullif(prepare_batch.delay, interval '0')),
        relay => nullif(v_topic.kind = 'relay', false));
    if v_topic.kind = 'relay' then
        perform mqpg._relay_prepares(array(select distinct u.id / 1024 from unnest(v_ids) as u(id)));
    end if;
    return query
    select mqpg._handle(v_broker.broker_id, v_broker.incarnation, u.id, v_secret)
    from unnest(v_ids) with ordinality as u(id, o)
    order by u.o;
end
$$;

-- The overloads for json and jsonb only turn the payload into text. They run as the caller, with
-- every name qualified, so that a call does not become the owner's twice.
create function mqpg.prepare_batch(
    topic text, payloads json [], producer_group text, keys text [] default null, tags text [] default null,
    headers jsonb [] default null, check_after interval default null, delay interval default null,
    ledger text default null
) returns setof text
language sql as $$
    select mqpg.prepare_batch(prepare_batch.topic, prepare_batch.payloads::pg_catalog.text [], prepare_batch.producer_group,
        prepare_batch.keys, prepare_batch.tags, prepare_batch.headers, prepare_batch.check_after, prepare_batch.delay,
        prepare_batch.ledger)
$$;

create function mqpg.prepare_batch(
    topic text, payloads jsonb [], producer_group text, keys text [] default null, tags text [] default null,
    headers jsonb [] default null, check_after interval default null, delay interval default null,
    ledger text default null
) returns setof text
language sql as $$
    select mqpg.prepare_batch(prepare_batch.topic, prepare_batch.payloads::pg_catalog.text [], prepare_batch.producer_group,
        prepare_batch.keys, prepare_batch.tags, prepare_batch.headers, prepare_batch.check_after, prepare_batch.delay,
        prepare_batch.ledger)
$$;
