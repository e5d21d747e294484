-- Writes messages of one topic without keys, which fit into one record batch, as that batch, and
-- returns their ids. _store() calls it if it can, because it neither sorts nor places the messages one
-- by one.
-- Locks: none beyond the new row. Cost: one row.
create function mqpg._store_together(
    topic_id int, queues int, checksums boolean, kind "char",
    payloads text [], tags text [], headers jsonb [], visible_at timestamptz,
    producer_group_id int, incarnation int, nonce uuid, check_at timestamptz, delay interval, relay boolean
) returns bigint []
language plpgsql as $$
declare
    v_xid xid8 := pg_current_xact_id();    -- before the batch id is drawn
    v_now timestamptz := clock_timestamp();
    v_n int := cardinality(_store_together.payloads);
    v_batch bigint := nextval('mqpg.batch_id');
    v_checksum bigint;
    v_queue smallint := mqpg._queue_of(v_batch, _store_together.queues);
begin
    if _store_together.checksums then
        v_checksum := mqpg._checksum(
            v_batch, _store_together.topic_id, _store_together.payloads, null, _store_together.tags,
            _store_together.headers, _store_together.producer_group_id, _store_together.check_at - v_now);
    end if;
    insert into mqpg.commit_log (
        batch_id, xid, born_at, topic_id, producer_group_id, incarnation, queue_id, n, kind, nonce, check_at,
        delay, tags, headers, payloads, relay, checksum)
    values (
        v_batch, v_xid, v_now, _store_together.topic_id, _store_together.producer_group_id,
        _store_together.incarnation, v_queue, v_n, _store_together.kind, _store_together.nonce,
        _store_together.check_at, _store_together.delay,
        case when cardinality(array_remove(_store_together.tags, null)) > 0 then _store_together.tags[:] end,
        case when cardinality(array_remove(_store_together.headers, null)) > 0 then _store_together.headers[:] end,
        _store_together.payloads[:]::json [],
        _store_together.relay, v_checksum);
    if _store_together.kind = 'd' then
        insert into mqpg.delayed (visible_at, xid, first_id, n, written_at, topic_id, queue_id)
        select _store_together.visible_at + b.ahead, v_xid, v_batch * 1024, v_n, b.written_at,
            _store_together.topic_id, v_queue
        from mqpg._broker_time(v_now) b;
    end if;
    return array(select v_batch * 1024 + i from generate_series(0, v_n - 1) as i);
end
$$;
