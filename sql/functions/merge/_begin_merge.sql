-- Begins a merge: it raises the oldest offsets of topics whose retention is over, and makes the new
-- tables.
-- Locks: 1836150838, tried only, because a caller that is about to begin at an oldest offset holds
-- it; the rows of queue_tail.
-- Cost: DDL; one lookup for each queue of the topics.
create function mqpg._begin_merge(kind text, segment_nos bigint [])
returns table (action text, family text, segment_no bigint, detail text)
language plpgsql as $$
declare
    v_first mqpg.segment;
    v_last mqpg.segment;
    v_merge mqpg.segment_merge;
    v_table record;
    v_moved boolean;
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
        where v_merge.closed_at + t.retention <= clock_timestamp()
        order by t.topic_id);
    if v_merge.topic_ids <> '{}' and not pg_try_advisory_xact_lock(1836150838, 0) then
        return;
    end if;
    select bool_or(mqpg._raise_oldest(q.topic_id, q.queue_id, q.next_offset)) into v_moved
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
    if v_moved then
        perform mqpg._note_oldest_moved();
    end if;
    for v_table in select f.* from mqpg._family_tables(v_merge.family) f loop
        execute format(
            'create table mqpg.%I (like mqpg.%I including defaults including constraints including storage'
            ' including compression including indexes)',
            mqpg._merge_name(v_table.parent, v_first.segment_no), v_table.parent);
        -- So that ATTACH need not read the rows.
        execute format(
            'alter table mqpg.%I add constraint merged check (%I >= %L and %I < %L)',
            mqpg._merge_name(v_table.parent, v_first.segment_no),
            mqpg._partition_column(v_table.parent), mqpg._scaled_bound(v_merge.lower_bound, v_table.per_unit),
            mqpg._partition_column(v_table.parent), mqpg._scaled_bound(v_merge.upper_bound, v_table.per_unit));
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
