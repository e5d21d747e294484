-- Applies rule I11 once more before released bodies are dropped, and copies what it finds straight
-- from the partition, which may be detached already. Nobody waits meanwhile, because it takes no
-- lock that anybody waits for.
-- It should find nothing, because a message of a closed segment that was not needed at the first
-- look is never needed later. A new retry or dead letter comes from a claim, and a claim lies at or
-- behind the oldest offset, so the message was `queued`. A redriven message was `dead`. An appended
-- one was `committed` or `delayed`, a decided one `undecided`. A closed segment gets no new halves,
-- and an oldest offset never moves back. Only a row that somebody writes by hand is found.
-- It therefore reads only what may have changed: decisions and delayed rows with an xid that was
-- not finished at the first look, queue rows of ticks after that, and the dead letters.
-- Locks: none. Cost: a few index ranges, and the dead letters. It does not grow with the segment.
create function mqpg._save_late_survivors(segment mqpg.segment) returns void
language plpgsql as $$
declare
    v_from bigint := (_save_late_survivors.segment).lower_bound::bigint * 1024;
    v_to bigint := (_save_late_survivors.segment).upper_bound::bigint * 1024;
    v_since xid8 := coalesce((_save_late_survivors.segment).leaving_xid, '0');
    v_ids bigint [];
begin
    v_ids := array(
        select distinct v.message_id
        from mqpg._survivors(v_from, v_to, coalesce((
            select t.tick_id from mqpg.tick t where t.xid < v_since order by t.xid desc limit 1), -1), null, v_since) v
        where not exists (select from mqpg.held h where h.message_id = v.message_id));
    if v_ids <> '{}' then
        perform mqpg._copy_survivors(
            v_ids, 'mqpg.' || mqpg._partition_name('commit_log', (_save_late_survivors.segment).segment_no));
        raise warning '% messages of log segment % became needed after it was released; they are copied',
            cardinality(v_ids), (_save_late_survivors.segment).segment_no;
    end if;
end
$$;
