-- Drops the released table of a segment, or reports that it is in use. An attached partition needs
-- a moment without any transaction on its parent. The keeper process detaches partitions first,
-- where it only waits and nobody waits for it; PostgreSQL does not let a function do that. The next
-- table of the segment is then released. Before the last table of a tick segment, rows of small
-- tables that are no longer needed are deleted, in as many calls as that takes.
-- Locks: 1836150842 with a hash of the table's name, and the segment's row, tried only; see
-- _drop_partition().
-- Cost: a look at what is younger than the release; DDL.
create function mqpg._finish_drop(kind text, no bigint)
returns table (action text, family text, segment_no bigint, detail text)
language plpgsql security definer set search_path = pg_catalog, pg_temp set timezone = 'UTC' as $$
declare
    v_checked boolean := mqpg._require_privilege('worker');
    v_segment mqpg.segment;
    v_next text;
    v_more boolean;
    v_left boolean := false;    -- old rows are left
begin
    select s.* into v_segment from mqpg.segment s
    where s.family = _finish_drop.kind and s.segment_no = _finish_drop.no and s.leaving is not null;
    if not found then
        return;
    end if;
    if not pg_try_advisory_xact_lock(1836150842, hashtext(v_segment.leaving)) then
        return query select 'blocked', v_segment.family, v_segment.segment_no,
            v_segment.leaving || ': the keeper process waits to detach a partition';
        return;
    end if;
    -- Before the lock on the parent, which must not wait for the row.
    select s.* into v_segment from mqpg.segment s
    where s.family = v_segment.family and s.segment_no = v_segment.segment_no and s.leaving = v_segment.leaving
    for update skip locked;
    if not found then
        return;
    end if;
    if v_segment.leaving = 'half_tick' then
        for action, family, segment_no, detail, v_more in select p.* from mqpg._delete_old_rows() p loop
            v_left := v_left or v_more;
            return next;
        end loop;
        -- The next call deletes more, before the table goes. Otherwise a ledger would grow that gets more
        -- rows in the time of a segment than one call deletes.
        if v_left then
            return;
        end if;
    elsif v_segment.leaving = 'commit_log' then
        perform mqpg._save_late_survivors(v_segment);
    end if;
    if not mqpg._drop_partition(v_segment.leaving, v_segment.segment_no) then
        return query select 'blocked', v_segment.family, v_segment.segment_no,
            v_segment.leaving || ' is in use; the next keep() tries again';
        return;
    end if;
    if v_segment.leaving <> 'commit_log' then
        select f.next_parent into v_next from mqpg._family_tables(v_segment.family) f
        where f.parent = v_segment.leaving;
    end if;
    update mqpg.segment s set
        leaving = v_next,
        leaving_since = case when v_next is not null then clock_timestamp() end,
        dropped_at = case when v_next is null and v_segment.leaving <> 'commit_log' then clock_timestamp() end,
        blocked_since = null
    where s.family = v_segment.family and s.segment_no = v_segment.segment_no;
    return query select 'dropped', v_segment.family, v_segment.segment_no,
        mqpg._partition_name(v_segment.leaving, v_segment.segment_no);
end
$$;
