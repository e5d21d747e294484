-- Writes messages of one topic without keys, or with one key, which fit into one record batch, as that
-- batch, and returns their ids. _store() calls it if it can, because it neither sorts nor places the messages
-- one by one.
-- Locks: none beyond the new row. Cost: one row.
create function mqpg._store_together(
    topic mqpg.topic, kind "char", payloads text [], tags text [], headers jsonb [], visible_at timestamptz,
    producer_group_id int, incarnation int, nonce uuid, check_at timestamptz, delay interval,
    key text default null
) returns bigint []
language plpgsql as $$
declare
    v_xid xid8 := pg_current_xact_id();    -- before the batch id is drawn
    v_now timestamptz := clock_timestamp();
    v_n int := cardinality(_store_together.payloads);
    v_batch bigint := nextval('mqpg.batch_id');
    v_queue smallint := case
        when _store_together.key is null then mqpg._queue_of(v_batch, _store_together.topic.queues)
        else mqpg._queue_of(_store_together.key, _store_together.topic.queues)
    end;
    v_ahead interval;
begin
    insert into mqpg.commit_log (
        batch_id, xid, born_at, topic_id, producer_group_id, incarnation, queue_id, n, kind, nonce, check_at,
        delay, keys, tags, headers, payloads, relay, checksum)
    values (
        v_batch, v_xid, v_now, _store_together.topic.topic_id, _store_together.producer_group_id,
        _store_together.incarnation, v_queue, v_n, _store_together.kind, _store_together.nonce,
        _store_together.check_at, _store_together.delay,
        case when _store_together.key is not null then array[_store_together.key] end,
        case when cardinality(array_remove(_store_together.tags, null)) > 0 then _store_together.tags[:] end,
        case when cardinality(array_remove(_store_together.headers, null)) > 0 then _store_together.headers[:] end,
        _store_together.payloads[:]::json [],
        case when _store_together.kind = 'h' and _store_together.topic.kind = 'relay' then true end,
        case when _store_together.topic.checksums then mqpg._checksum(v_batch, _store_together.payloads) end);
    if _store_together.kind = 'd' then
        v_ahead := mqpg._ahead();
        insert into mqpg.delayed (visible_at, xid, first_id, n, written_at, topic_id, queue_id)
        values (
            _store_together.visible_at + v_ahead, v_xid, v_batch * 1024, v_n, mqpg._written_at(v_now, v_ahead),
            _store_together.topic.topic_id, v_queue);
    end if;
    return array(select v_batch * 1024 + i from generate_series(0, v_n - 1) as i);
end
$$;
