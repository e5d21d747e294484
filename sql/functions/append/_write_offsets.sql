-- Gives offsets to messages of every kind: the appender's INSERT into consume_queue. It collects what
-- is new up to a snapshot and a due time, orders it, joins neighbours into runs, and writes rows of
-- at most 64 runs and 4096 messages at the end of each queue. `sends`, `decisions` and `due` say what
-- there may be (_what_is_new()); delayed messages are decided first.
-- The ids b * 1024 + 1023 and (b + 1) * 1024 are neighbours as numbers and never join. Decisions
-- join only if ids ascend in the order of the decisions.
-- Locks: only the new rows, because append() runs one at a time.
-- Cost: linear in the new record batches: 3 to 5 us for each single send or commit, 10 to 20 us for
-- each delayed message with its decision. The plan is generic and expects few rows, so nothing here
-- joins two of the larger sets. 32 MB of memory sort about 200,000 batches without a file.
create function mqpg._write_offsets(
    last_tick mqpg.tick, upto pg_snapshot, due_until timestamptz, sends boolean, decisions boolean, due boolean,
    out messages bigint, out topic_ids int []
)
language plpgsql set work_mem = '32MB' as $$
declare
    -- What is new: see _new_sends(). A source without news begins after its last partition, so that the
    -- executor opens none.
    v_newest bigint := pg_sequence_last_value('mqpg.batch_id');
    v_from xid8 := _write_offsets.last_tick.snapshot_xmax;
    v_late xid8 [] := array(select pg_snapshot_xip(_write_offsets.last_tick.snapshot));
    v_due_from timestamptz := _write_offsets.last_tick.due_until;
    v_none constant bigint := 9223372036854775807;
    v_floor bigint := case when _write_offsets.sends then _write_offsets.last_tick.floor_id else v_none end;
    v_decidable bigint := case when _write_offsets.decisions then mqpg._decidable_from() else v_none end;
    v_due_decidable bigint := v_none;
    v_written timestamptz := 'infinity';
    v_recent bigint := mqpg._recent_tick();
begin
    if _write_offsets.due then
        v_due_decidable := mqpg._decidable_from();
        v_written := '-infinity';
        perform mqpg._decide_due(_write_offsets.last_tick, _write_offsets.upto, _write_offsets.due_until);
    end if;
    with due as materialized (
        select d.*, (extract(epoch from d.visible_at) * 1000000)::bigint as place
        from mqpg._newly_due(v_due_from, _write_offsets.due_until, v_from, v_late, _write_offsets.upto) d
        where d.written_at >= v_written
    ),
    fresh as (
        select l.topic_id, l.queue_id, 0 as subscription_id, l.batch_id as place, l.batch_id * 1024 as id,
            l.n::int as n, null::bigint as deliver_id, null::smallint as attempt, false as due
        from mqpg._new_sends(v_floor, v_newest, v_from, v_late, _write_offsets.upto) l
        union all
        select o.topic_id, o.queue_id, 0, o.order_no, o.message_id, 1, o.deliver_id, null, false
        from mqpg._new_commits(v_decidable, v_newest, v_from, v_late, _write_offsets.upto) o
        union all
        select d.topic_id, d.queue_id, d.subscription_id, d.place, d.first_id, d.n, d.deliver_id, d.attempt, true
        from due d
        where d.subscription_id <> 0 and not exists (
            select from mqpg.subscription b
            where b.subscription_id = d.subscription_id and b.retries_from > d.written_at)
        union all
        -- Message by message, because a recalled one splits its run. Only messages that this
        -- transaction decided, because a postponed message has a second row. `offset 0` keeps the
        -- lookup a lookup: a planner that expects few due rows would read all decisions first and
        -- compare each with each due row.
        select d.topic_id, d.queue_id, 0, d.place, o.message_id, 1, d.deliver_id, null, true
        from due d
        join lateral (
            select k.message_id from mqpg.op_log k
            where k.message_id >= v_due_decidable and k.message_id between d.first_id and d.first_id + d.n - 1
                and k.stage = 1 and k.op = 'd'
                and k.xid = pg_current_xact_id()
            offset 0
        ) as o on true
        where d.subscription_id = 0
    ),
    -- All windows have one order, so that the messages are sorted once. A run is not collected from
    -- its rows: it lasts from the row that begins it to the next row that does.
    marked as (
        select f.*, sum(f.n) over w as end_at, lead(f.id) over w is null as ends,
            (lag(case when f.deliver_id is null then f.id + f.n end) over w = f.id and f.id & 1023 <> 0
                and f.deliver_id is null and f.attempt is not distinct from lag(f.attempt) over w)
            is not true as begins,
            -- The first row of a queue looks up its tail, for the others too.
            case when lag(f.id) over w is null
                then mqpg._tail(f.topic_id, f.queue_id, f.subscription_id, v_recent) end as tail
        from fresh f
        window w as (
            partition by f.topic_id, f.queue_id, f.subscription_id order by f.due, f.place, f.id
            rows unbounded preceding)
    ),
    placed as (
        select m.topic_id, m.queue_id, m.subscription_id, m.begins, m.id as first_id, m.deliver_id, m.attempt,
            m.end_at - m.n as begin_at, row_number() over w - 1 as nth, first_value(m.tail) over w as tail,
            coalesce(lead(m.end_at - case when m.begins then m.n else 0 end) over w, m.end_at) as end_at
        from marked m
        where m.begins or m.ends
        window w as (
            partition by m.topic_id, m.queue_id, m.subscription_id order by m.due, m.place, m.id
            rows unbounded preceding)
    ),
    appended as (
        -- A row begins inside one window of 3072 messages, and its last run has at most 1024.
        insert into mqpg.consume_queue (
            base_offset, tick_id, topic_id, subscription_id, n, queue_id, first_ids, starts, deliver_ids, attempts)
        select min(p.tail + p.begin_at), _write_offsets.last_tick.tick_id + 1, p.topic_id, p.subscription_id,
            max(p.end_at) - min(p.begin_at), p.queue_id, array_agg(p.first_id order by p.nth),
            array(select (b - min(p.begin_at))::int from unnest(array_agg(p.begin_at order by p.nth)) b),
            case when count(p.deliver_id) > 0 then array_agg(p.deliver_id order by p.nth) end,
            case when count(p.attempt) > 0 then array_agg(p.attempt order by p.nth) end
        from placed p
        where p.begins
        group by p.topic_id, p.queue_id, p.subscription_id, p.nth / 64, (p.begin_at / 3072)::int
        returning topic_id, n
    )
    select coalesce(sum(a.n), 0), coalesce(array_agg(distinct a.topic_id), '{}')
    into _write_offsets.messages, _write_offsets.topic_ids
    from appended a;
end
$$;
