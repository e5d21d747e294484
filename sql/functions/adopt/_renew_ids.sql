-- Moves batch ids and tick ids beyond every id that the original may have used after the copy was
-- made: batch ids by the segments that were ready and 2^30 more, and by 2^18 for each second since
-- the newest tick, or by one segment for each segment_age, if that is faster. Tick ids move 1024
-- segments ahead.
-- It writes the newest tick again under the new ids. After a restore into another cluster, that
-- tick's snapshot is one in which only the caller's own rows are new.
-- The sequence moves by ALTER SEQUENCE, because a setval() would outlast a rollback or a crash, which
-- takes the new partitions away, so that no message could be sent. tick_mark may be too great.
-- Locks: the caller's; batch_id, until commit, against whoever has drawn or wants to draw an id; those
-- of making a segment.
-- Cost: a few inserts; after a restore also every row of the hot tables.
create function mqpg._renew_ids(last_tick mqpg.tick, foreign_xids boolean) returns void
language plpgsql as $$
declare
    v_own xid8 := pg_current_xact_id();
    v_ids bigint := mqpg._setting('segment_ids');
    v_ticks bigint := mqpg._setting('segment_ticks');
    v_batch bigint := greatest(
        (select b.last_value from mqpg.batch_id b),
        (select max(s.upper_bound::bigint) from mqpg.segment s where s.family = 'log'));
    v_missed double precision := greatest(
        date_part('epoch', clock_timestamp() - (_renew_ids.last_tick).at), 0);
    v_tick_id bigint := greatest((_renew_ids.last_tick).tick_id, (select max(h.half_tick_id) from mqpg.half_tick h));
    v_snapshot pg_snapshot := (_renew_ids.last_tick).snapshot;
    v_half mqpg.half_tick;
begin
    v_batch := v_batch + 1073741824 + (coalesce(v_missed, 0) * greatest(
        262144, v_ids / greatest(date_part('epoch', mqpg._segment_age('log')), 1)))::bigint;
    v_tick_id := (v_tick_id / v_ticks + 1024) * v_ticks;
    execute format('alter sequence mqpg.batch_id restart with %s', v_batch);
    perform nextval('mqpg.batch_id');
    perform mqpg._make_segment('log', v_batch::text, (v_batch + v_ids)::text, true);
    perform mqpg._make_segment('tick', v_tick_id::text, (v_tick_id + v_ticks)::text, true);
    select h.* into v_half from mqpg.half_tick h order by h.half_tick_id desc limit 1;
    if _renew_ids.foreign_xids then
        perform mqpg._renew_xids(_renew_ids.last_tick);
        v_snapshot := format('%s:%s:', v_own, v_own);
        v_half.snapshot := v_snapshot;
        v_half.floor_id := 0;
        v_half.xid := v_own;
        v_half.batch_seq := v_batch;
    end if;
    insert into mqpg.tick (
        tick_id, xid, snapshot, snapshot_xmax, batch_seq, floor_id, due_until, messages, topic_ids, at)
    select v_tick_id, case when _renew_ids.foreign_xids then v_own else t.xid end, v_snapshot,
        pg_snapshot_xmax(v_snapshot), case when _renew_ids.foreign_xids then v_batch else t.batch_seq end, t.floor_id,
        t.due_until, 0, '{}', clock_timestamp()
    from mqpg.tick t order by t.tick_id desc limit 1;
    perform setval('mqpg.tick_mark', v_tick_id);
    insert into mqpg.half_tick (half_tick_id, xid, snapshot, snapshot_xmax, batch_seq, floor_id, entries, at)
    values (v_tick_id, v_half.xid, v_half.snapshot, pg_snapshot_xmax(v_half.snapshot), v_half.batch_seq,
        v_half.floor_id, 0, clock_timestamp());
    -- The segments ahead of these; otherwise a keeper would make them.
    perform mqpg._make_segments();
end
$$;
