-- Releases the bodies of one expired log segment, so that its part of commit_log is dropped.
-- Messages that must stay readable (I11) are copied in the same transaction. If there are more than
-- the setting `held_limit`, the segment stays, and the report says why. Parked half messages do not
-- count, because nobody can say when they end.
-- Locks: none but the copies. A closed segment gets no new messages, and what is not needed at this
-- look is not needed later; see _save_late_survivors().
-- Cost: the segment's half messages, delayed messages, and the remaining rows of consume_queue.
create function mqpg._release_bodies(segment mqpg.segment)
returns table (action text, family text, segment_no bigint, detail text)
language plpgsql as $$
declare
    v_segment mqpg.segment := _release_bodies.segment;
    v_limit bigint := mqpg._setting('held_limit');
    v_from bigint := v_segment.lower_bound::bigint * 1024;
    v_to bigint := v_segment.upper_bound::bigint * 1024;
    v_since xid8 := pg_snapshot_xmin(pg_current_snapshot());    -- before the look
    v_ids bigint [];
    v_why text;
    v_copied bigint;
    v_most bigint := v_limit * 4 + 1;   -- enough rows, as a rule, to see that the limit is exceeded
    v_rows bigint;
    v_counted bigint;
begin
    loop
        with seen as materialized (
            select v.message_id, min(v.why) as why, count(*) as n
            from mqpg._survivors(v_from, v_to, -1, v_most) v group by 1
        )
        select array_agg(s.message_id), sum(s.n), (
            select string_agg(format('%s %s', w.n, w.why), ', ' order by w.n desc)
            from (select x.why, count(*) as n from seen x group by 1) w)
        into v_ids, v_rows, v_why from seen s;
        v_counted := cardinality(v_ids);
        if v_counted > v_limit then
            select count(*) into v_counted from unnest(v_ids) as i(id)
            where not exists (select from pgmq.a_mqpg_oplog p where (p.message ->> 'message_id')::bigint = i.id);
        end if;
        exit when v_most is null or v_rows is null or v_rows < v_most or v_counted > v_limit;
        -- Few messages, each many times (dead letters of many subscriptions), or many that do not
        -- count: read all rows.
        v_most := null;
    end loop;
    if v_counted > v_limit then
        return query select 'pinned', 'log', v_segment.segment_no, format(
            'more than held_limit = %s messages must stay readable: %s', v_limit, v_why);
        return;
    end if;
    v_copied := mqpg._copy_survivors(v_ids, 'mqpg.commit_log');
    perform mqpg._release_table('log', v_segment.segment_no, 'commit_log', v_since);
    return query select 'released', 'log', v_segment.segment_no, mqpg._partition_name(
        'commit_log', v_segment.segment_no) || coalesce(format(', %s survivors copied: %s', v_copied, v_why), '');
end
$$;
