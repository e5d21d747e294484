-- The last step of an installation: it makes the first partitions and a first tick whose snapshot
-- sees no transaction, so that the queue works at once, without any worker.
select mqpg._make_segments();
insert into mqpg.tick (
    tick_id, xid, snapshot, snapshot_xmax, batch_seq, floor_id, due_until, messages, topic_ids, at)
values (0, '2', '2:2:', '2', 0, 0, '-infinity', 0, '{}', clock_timestamp());
insert into mqpg.half_tick (half_tick_id, xid, snapshot, snapshot_xmax, batch_seq, floor_id, entries, at)
values (0, '2', '2:2:', '2', 0, 0, 0, clock_timestamp());
select mqpg._note_oldest_moved();
-- The tables of PGMQ, too, so that a publication does not stop what deletes rows of them.
do $$
begin
    perform mqpg._identify_rows('pgmq', c.relname)
    from pg_class c where c.relnamespace = 'pgmq'::regnamespace and c.relkind in ('r', 'p') and c.relpersistence = 'p';
exception when insufficient_privilege then
    null;   -- PGMQ is an extension of another owner
end $$;
