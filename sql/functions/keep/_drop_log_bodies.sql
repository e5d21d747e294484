-- Drops the bodies of one expired log segment. Messages that must stay readable (I11) are copied
-- first, in the same subtransaction, so that nothing is copied if the drop has to wait. If there
-- are more than the setting `held_limit`, the segment stays, and the report says why.
-- Under the partition's lock a new statement applies the rule again. Of consume_queue it reads only
-- what is newer than the first look, because the rest cannot have changed.
-- Locks: ACCESS EXCLUSIVE on the partition, then on commit_log, each waited for at most 100 ms.
-- Cost: the segment's half messages, delayed messages, and the remaining rows of consume_queue.
create function mqpg._drop_log_bodies(no bigint)
returns table (action text, family text, segment_no bigint, detail text)
language plpgsql as $$
declare
    v_segment mqpg.segment;
    v_limit bigint := mqpg._setting('held_limit');
    v_from bigint;
    v_to bigint;
    v_tick_id bigint;
    v_ids bigint [];
    v_why text;
    v_copied bigint;
    v_most bigint := v_limit * 4 + 1;   -- enough rows, as a rule, to see that the limit is exceeded
    v_rows bigint;
begin
    select s.* into v_segment from mqpg.segment s
    where s.family = 'log' and s.segment_no = _drop_log_bodies.no;
    v_from := v_segment.lower_bound::bigint * 1024;
    v_to := v_segment.upper_bound::bigint * 1024;
    select coalesce(max(t.tick_id), 0) into v_tick_id from mqpg.tick t;
    loop
        with seen as materialized (
            select v.message_id, min(v.why) as why, count(*) as n
            from mqpg._survivors(v_from, v_to, -1, v_most) v group by 1
        )
        select array_agg(s.message_id), sum(s.n), (
            select string_agg(format('%s %s', w.n, w.why), ', ' order by w.n desc)
            from (select x.why, count(*) as n from seen x group by 1) w)
        into v_ids, v_rows, v_why from seen s;
        exit when v_most is null or v_rows is null or v_rows < v_most or cardinality(v_ids) > v_limit;
        -- Few messages, each many times (dead letters of many subscriptions): read all rows.
        v_most := null;
    end loop;
    if cardinality(v_ids) > v_limit then
        return query select 'pinned', 'log', v_segment.segment_no, format(
            'more than held_limit = %s messages must stay readable: %s', v_limit, v_why);
        return;
    end if;
    begin
        v_copied := mqpg._copy_survivors(v_ids);
        if not mqpg._lock_partition('commit_log', v_segment.segment_no) then
            raise lock_not_available;
        end if;
        if exists (
            select from mqpg._survivors(v_from, v_to, v_tick_id, null) v
            where not exists (select from mqpg.held h where h.message_id = v.message_id)
        ) then
            raise lock_not_available;
        end if;
        -- A statement of its own, because one that reads a table cannot drop it.
        if not mqpg._drop_partition('commit_log', v_segment.segment_no) then
            raise lock_not_available;
        end if;
        update mqpg.segment s set body_dropped_at = clock_timestamp()
        where s.family = 'log' and s.segment_no = v_segment.segment_no;
    exception when lock_not_available then
        return query
        select 'blocked', 'log', v_segment.segment_no, 'commit_log is in use; the next keep() tries again';
        return;
    end;
    return query select 'dropped', 'log', v_segment.segment_no, format(
        'commit_log_%s%s', v_segment.segment_no, coalesce(format(', %s survivors copied: %s', v_copied, v_why), ''));
end
$$;
comment on function mqpg._drop_log_bodies(bigint) is
    'Internal: drop the bodies of an expired segment under rule I11';
