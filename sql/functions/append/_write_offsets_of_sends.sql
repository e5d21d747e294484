-- Gives offsets to sends alone, which most passes of a busy broker have. It writes the same rows as
-- _write_offsets(), which serves messages of every kind: to set up that one's large plan takes longer
-- than to append a few messages. Each record batch is a run.
-- Locks: only the new rows, because append() runs one at a time.
-- Cost: linear in the new record batches.
create function mqpg._write_offsets_of_sends(
    last_tick mqpg.tick, upto pg_snapshot, out messages bigint, out topic_ids int []
)
language plpgsql set work_mem = '32MB' as $$
declare
    v_floor bigint := _write_offsets_of_sends.last_tick.floor_id;
    v_newest bigint := pg_sequence_last_value('mqpg.batch_id');
    v_from xid8 := _write_offsets_of_sends.last_tick.snapshot_xmax;
    v_late xid8 [] := array(select pg_snapshot_xip(_write_offsets_of_sends.last_tick.snapshot));
    v_recent bigint := mqpg._recent_tick();
begin
    with placed as (
        select f.topic_id, f.queue_id, f.batch_id, f.n, sum(f.n) over w - f.n as begin_at,
            row_number() over w - 1 as nth
        from mqpg._new_sends(v_floor, v_newest, v_from, v_late, _write_offsets_of_sends.upto) f
        window w as (partition by f.topic_id, f.queue_id order by f.batch_id rows unbounded preceding)
    ),
    piece as (
        -- A row begins inside one window of 3072 messages, and its last run has at most 1024.
        select p.topic_id, p.queue_id, min(p.begin_at) as begin_at, sum(p.n) as n,
            array_agg(p.batch_id * 1024 order by p.nth) as first_ids,
            array_agg(p.begin_at order by p.nth) as begins
        from placed p
        group by p.topic_id, p.queue_id, p.nth / 64, (p.begin_at / 3072)::int
    ),
    -- The first row of a queue looks up its tail, for the others too.
    tail as (
        select p.*, case when lag(p.begin_at) over w is null
            then mqpg._tail(p.topic_id, p.queue_id, 0, v_recent) end as next_offset
        from piece p
        window w as (partition by p.topic_id, p.queue_id order by p.begin_at)
    ),
    appended as (
        insert into mqpg.consume_queue (
            base_offset, tick_id, topic_id, subscription_id, n, queue_id, first_ids, starts)
        select first_value(t.next_offset) over w + t.begin_at, _write_offsets_of_sends.last_tick.tick_id + 1,
            t.topic_id, 0, t.n, t.queue_id, t.first_ids, array(select (b - t.begin_at)::int from unnest(t.begins) b)
        from tail t
        window w as (partition by t.topic_id, t.queue_id order by t.begin_at)
        returning topic_id, n
    )
    select coalesce(sum(a.n), 0), coalesce(array_agg(distinct a.topic_id), '{}')
    into _write_offsets_of_sends.messages, _write_offsets_of_sends.topic_ids
    from appended a;
end
$$;
