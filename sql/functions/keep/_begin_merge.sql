-- Begins a merge: it raises the oldest offsets of topics whose retention is over, notes where queues
-- end, and makes the new tables.
-- Locks: the topics against beginning at an oldest offset (1836150838, topic_id), tried only; the
-- rows of queue_tail.
-- Cost: DDL; one lookup for each queue of the topics; for ticks it reads the segments' part of
-- consume_queue.
create function mqpg._begin_merge(kind text, segment_nos bigint [])
returns table (action text, family text, segment_no bigint, detail text)
language plpgsql as $$
declare
    v_first mqpg.segment;
    v_last mqpg.segment;
    v_merge mqpg.segment_merge;
    v_table record;
begin
    select s.* into v_first from mqpg.segment s
    where s.family = _begin_merge.kind and s.segment_no = _begin_merge.segment_nos[1];
    select s.* into v_last from mqpg.segment s
    where s.family = _begin_merge.kind
        and s.segment_no = _begin_merge.segment_nos[cardinality(_begin_merge.segment_nos)];
    v_merge.family := _begin_merge.kind;
    v_merge.segment_nos := _begin_merge.segment_nos;
    v_merge.lower_bound := v_first.lower_bound;
    v_merge.upper_bound := v_last.upper_bound;
    v_merge.closed_at := mqpg._expiry_base(v_last);
    v_merge.topic_ids := array(
        select t.topic_id from mqpg.topic t
        where v_merge.closed_at + t.retention <= clock_timestamp() order by t.topic_id);
    perform mqpg._raise_oldest(q.topic_id, q.queue_id, q.next_offset)
    from (
        select t.topic_id, i.i as queue_id, (
            select c.base_offset + c.n from mqpg.consume_queue c
            where c.topic_id = t.topic_id and c.queue_id = i.i and c.subscription_id = 0 and c.tick_id < (
                select max(s.upper_bound::bigint) from mqpg.segment s
                where s.family = 'tick' and s.closed_at + t.retention <= clock_timestamp())
            order by c.base_offset desc limit 1) as next_offset
        from mqpg.topic t
        cross join lateral generate_series(0, t.queues - 1) as i(i)
        where t.topic_id = any(v_merge.topic_ids)
    ) as q
    where q.next_offset is not null;
    if v_merge.family = 'tick' then
        perform mqpg._note_tails(v_merge.lower_bound::bigint, v_merge.upper_bound::bigint);
    end if;
    for v_table in select f.* from mqpg._family_tables(v_merge.family) f loop
        execute format(
            'create table mqpg.%I (like mqpg.%I including defaults including constraints including storage'
            ' including compression including indexes)',
            v_table.parent || '_' || v_first.segment_no || '_merge', v_table.parent);
        -- So that ATTACH need not read the rows.
        execute format(
            'alter table mqpg.%I add constraint merged check (%I >= %L and %I < %L)',
            v_table.parent || '_' || v_first.segment_no || '_merge',
            v_table.key, mqpg._scaled_bound(v_merge.lower_bound, v_table.per_unit),
            v_table.key, mqpg._scaled_bound(v_merge.upper_bound, v_table.per_unit));
    end loop;
    insert into mqpg.segment_merge (
        family, segment_nos, lower_bound, upper_bound, closed_at, partitions, topic_ids, parent, copied_xid)
    values (
        v_merge.family, v_merge.segment_nos, v_merge.lower_bound, v_merge.upper_bound, v_merge.closed_at,
        mqpg._merged_partitions(v_merge), v_merge.topic_ids, '', pg_current_xact_id());
    return query select 'merging', v_merge.family, v_first.segment_no, format('segments %s, without %s topics',
        array_to_string(v_merge.segment_nos, ', '), cardinality(v_merge.topic_ids));
end
$$;
comment on function mqpg._begin_merge(text, bigint []) is 'Internal: begin a merge of closed segments';
