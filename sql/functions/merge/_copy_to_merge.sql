-- Copies the next piece of a merge: at most about 10000 rows or 64 MB of one table. What each table
-- leaves out:
--   commit_log: topics that were dropped or are past retention, apart from batches that are needed.
--   op_log, check_log: the same, when the body is gone and the setting `op_log_keep` is over too.
--   consume_queue: rows before the oldest offset, and retries that are done, of such topics.
--   tick: ticks without a row in consume_queue, apart from the last one. half_tick: all but the
--       last one.
--   delayed: rows of such topics that are appended, when the body is gone.
-- The key up to which rows are copied is a text, which another session must read as the same time.
-- Locks: none. Cost: reads the piece, writes what is kept of it.
create function mqpg._copy_to_merge(merge mqpg.segment_merge)
returns table (action text, family text, segment_no bigint, detail text)
language plpgsql set jit = off set datestyle = 'ISO' as $$
declare
    v_merge mqpg.segment_merge := _copy_to_merge.merge;
    v_table record;
    v_target text := mqpg._merge_name(v_merge.parent, v_merge.segment_nos[1]);
    v_key text := mqpg._partition_column(v_merge.parent);
    v_range text;
    v_upto text;
    v_rows bigint;
begin
    select f.* into v_table from mqpg._family_tables(v_merge.family) f where f.parent = v_merge.parent;
    v_range := format(
        'x.%1$I %2$s %3$L and x.%1$I < %4$L', v_key, case when v_merge.copied_to is null then '>=' else '>' end,
        coalesce(v_merge.copied_to, mqpg._scaled_bound(v_merge.lower_bound, v_table.per_unit)),
        mqpg._scaled_bound(v_merge.upper_bound, v_table.per_unit));
    execute format(
        'select max(s.key)::text from (select p.key, sum(p.size) over (order by p.key) - p.size as before'
        ' from (select x.%I as key, %s as size from mqpg.%I x where %s order by 1 limit 10000) p) s'
        ' where s.before < 67108864',
        v_key, case v_table.parent when 'commit_log' then 'pg_column_size(x.payloads)' else '0' end,
        v_table.parent, v_range)
    into v_upto;
    if v_upto is not null then
        execute format(
            'insert into mqpg.%I select x.* from mqpg.%I x where %s and x.%I <= %L and (%s)',
            v_target, v_table.parent, v_range, v_key, v_upto,
            mqpg._merge_condition(v_table.parent, v_merge.segment_nos[1]))
        using v_merge.topic_ids, v_merge.needed_batches, mqpg._scaled_bound(v_merge.lower_bound, v_table.per_unit),
            mqpg._scaled_bound(v_merge.upper_bound, v_table.per_unit);
        get diagnostics v_rows = row_count;
        update mqpg.segment_merge m
        set copied_to = v_upto, copied_rows = m.copied_rows + v_rows, copied_xid = pg_current_xact_id()
        where m.family = v_merge.family;
    else
        v_rows := 0;
        update mqpg.segment_merge m set copied_to = null, parent = v_table.next_parent
        where m.family = v_merge.family;
    end if;
    return query select 'merging', v_merge.family, v_merge.segment_nos[1], format('%s: %s rows copied', v_merge.parent,
        v_rows);
end
$$;
