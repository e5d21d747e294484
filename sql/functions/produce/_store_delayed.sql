-- Writes one delayed message without a dedup id, and returns its id.
-- Locks: none beyond the new rows. Cost: two rows.
create function mqpg._store_delayed(
    topic mqpg.topic, payload text, key text, tag text, headers jsonb, visible_at timestamptz
) returns bigint
language plpgsql as $$
declare
    v_xid xid8 := pg_current_xact_id();    -- before the batch id is drawn
    v_now timestamptz := clock_timestamp();
    v_batch bigint := nextval('mqpg.batch_id');
    v_queue smallint := case
        when _store_delayed.key is null then mqpg._queue_of(v_batch, _store_delayed.topic.queues)
        else mqpg._queue_of(_store_delayed.key, _store_delayed.topic.queues)
    end;
    v_ahead interval := mqpg._ahead();
begin
    insert into mqpg.commit_log (
        batch_id, xid, born_at, topic_id, queue_id, n, kind, keys, tags, headers, payloads, checksum)
    values (
        v_batch, v_xid, v_now, _store_delayed.topic.topic_id, v_queue, 1, 'd',
        case when _store_delayed.key is not null then array[_store_delayed.key] end,
        case when _store_delayed.tag is not null then array[_store_delayed.tag] end,
        case when _store_delayed.headers is not null then array[_store_delayed.headers] end,
        array[_store_delayed.payload::json],
        case when _store_delayed.topic.checksums then mqpg._checksum(v_batch, array[_store_delayed.payload]) end);
    insert into mqpg.delayed (visible_at, xid, first_id, n, written_at, topic_id, queue_id)
    values (
        _store_delayed.visible_at + v_ahead, v_xid, v_batch * 1024, 1, mqpg._written_at(v_now, v_ahead), _store_delayed.topic.topic_id,
        v_queue);
    return v_batch * 1024;
end
$$;
