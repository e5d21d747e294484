-- Writes messages of one topic into the commit log and returns their ids in the order of the
-- arguments. Messages without a key share a record batch, and those with a key make one for each
-- queue. A record batch has at most 1024 messages and about 256 KiB, and the rest begins another.
-- Batch ids ascend in the order of the arguments, so messages with the same key keep their order.
-- Messages with a producer group are half messages, and those with a time `visible_at` are delayed.
-- Locks: none beyond the new rows. Cost: one row for each record batch.
create function mqpg._store(
    topic_id int, queues int, checksums boolean, payloads text [], keys text [], tags text [], headers jsonb [],
    visible_at timestamptz default null, producer_group_id int default null, incarnation int default null,
    nonce uuid default null, check_at timestamptz default null, delay interval default null, relay boolean default null
) returns bigint []
language plpgsql as $$
declare
    v_xid xid8 := pg_current_xact_id();    -- before any batch id is drawn
    v_now timestamptz := clock_timestamp();
    v_kind "char" := case
        when _store.producer_group_id is not null then 'h'
        when _store.visible_at is not null then 'd'
        else 'n'
    end;
    v_n int := cardinality(_store.payloads);
    v_piece record;
    v_batch bigint;
    v_checksum bigint;
    v_queue smallint;
    v_ids bigint [];
begin
    -- Without keys, messages that fit into one record batch are neither sorted nor placed one by one.
    if v_n between 1 and 1024 and pg_column_size(_store.payloads) <= 262144
        and coalesce(cardinality(array_remove(_store.keys, null)), 0) = 0 then
        v_batch := nextval('mqpg.batch_id');
        v_queue := mqpg._queue_of(v_batch, _store.queues);
        if _store.checksums then
            v_checksum := mqpg._checksum(
                v_batch, _store.topic_id, _store.payloads, null, _store.tags, _store.headers,
                _store.producer_group_id, _store.check_at - v_now);
        end if;
        insert into mqpg.commit_log (
            batch_id, xid, born_at, topic_id, producer_group_id, incarnation, queue_id, n, kind, nonce, check_at,
            delay, tags, headers, payloads, relay, checksum)
        values (
            v_batch, v_xid, v_now, _store.topic_id, _store.producer_group_id, _store.incarnation, v_queue, v_n,
            v_kind, _store.nonce, _store.check_at, _store.delay,
            case when cardinality(array_remove(_store.tags, null)) > 0 then _store.tags[:] end,
            case when cardinality(array_remove(_store.headers, null)) > 0 then _store.headers[:] end,
            _store.payloads[:]::json [], _store.relay, v_checksum);
        if v_kind = 'd' then
            insert into mqpg.delayed (visible_at, xid, first_id, n, written_at, topic_id, queue_id)
            select _store.visible_at + b.ahead, v_xid, v_batch * 1024, v_n, b.written_at, _store.topic_id, v_queue
            from mqpg._broker_time(v_now) b;
        end if;
        return array(select v_batch * 1024 + i from generate_series(0, v_n - 1) as i);
    end if;
    v_ids := array_fill(null::bigint, array[v_n]);
    for v_piece in
        with message as (
            select u.o, u.p, u.k, u.t, u.h, octet_length(u.p) as size,
                case when u.k is null then -1 else mqpg._queue_of(u.k, _store.queues) end as queue_of_key
            from unnest(_store.payloads, _store.keys, _store.tags, _store.headers)
                with ordinality as u(p, k, t, h, o)
        ),
        placed as (
            select m.*, row_number() over w - 1 as rank, sum(m.size) over w - m.size as bytes_before
            from message m window w as (partition by m.queue_of_key order by m.o)
        )
        select p.queue_of_key, count(*)::int as n, array_agg(p.o::int order by p.o) as ordinals,
            array_agg(p.p order by p.o) as payloads,
            case when count(p.k) > 0 then array_agg(p.k order by p.o) end as keys,
            case when count(p.t) > 0 then array_agg(p.t order by p.o) end as tags,
            case when count(p.h) > 0 then array_agg(p.h order by p.o) end as headers
        from placed p
        group by p.queue_of_key, p.rank / 1024, (p.bytes_before / 262144)::int
        order by min(p.o)
    loop
        v_batch := nextval('mqpg.batch_id');
        v_queue := case
            when v_piece.queue_of_key >= 0 then v_piece.queue_of_key
            else mqpg._queue_of(v_batch, _store.queues)
        end;
        if _store.checksums then
            v_checksum := mqpg._checksum(
                v_batch, _store.topic_id, v_piece.payloads, v_piece.keys, v_piece.tags, v_piece.headers,
                _store.producer_group_id, _store.check_at - v_now);
        end if;
        insert into mqpg.commit_log (
            batch_id, xid, born_at, topic_id, producer_group_id, incarnation, queue_id, n, kind, nonce, check_at,
            delay, keys, tags, headers, payloads, relay, checksum)
        values (
            v_batch, v_xid, v_now, _store.topic_id, _store.producer_group_id, _store.incarnation, v_queue,
            v_piece.n, v_kind, _store.nonce, _store.check_at, _store.delay,
            v_piece.keys, v_piece.tags, v_piece.headers, v_piece.payloads::json [],
            _store.relay, v_checksum);
        if v_kind = 'd' then
            insert into mqpg.delayed (visible_at, xid, first_id, n, written_at, topic_id, queue_id)
            select _store.visible_at + b.ahead, v_xid, v_batch * 1024, v_piece.n, b.written_at,
                _store.topic_id, v_queue
            from mqpg._broker_time(v_now) b;
        end if;
        for v_position in 1..v_piece.n loop
            v_ids[v_piece.ordinals[v_position]] := v_batch * 1024 + v_position - 1;
        end loop;
    end loop;
    return v_ids;
end
$$;
