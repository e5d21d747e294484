-- Notes how many bytes of bodies each topic has in closed log segments, where some topics are past
-- retention and others are not. It reads a sample of at most about 200 pages and no stored-away
-- values. A segment is measured once; a merge forgets the numbers.
-- Locks: the rows of segment.
-- Cost: 200 pages for each new segment.
create function mqpg._measure_segments() returns void
language plpgsql as $$
declare
    v_segment mqpg.segment;
    v_table text;
    v_percent numeric;
    v_sizes jsonb;
begin
    for v_segment in
        select s.* from mqpg.segment s
        where s.family = 'log' and s.closed_at is not null and s.body_dropped_at is null and s.sizes is null
            and exists (select from mqpg.topic t where s.closed_at + t.retention <= clock_timestamp())
        order by s.segment_no
    loop
        v_table := 'mqpg.' || mqpg._partition_name('commit_log', v_segment.segment_no);
        continue when to_regclass(v_table) is null;
        v_percent := least(100, 100 * 200.0 / greatest(pg_relation_size(v_table) / current_setting('block_size')::int, 1));
        execute format(
            'select coalesce(jsonb_object_agg(k.topic_id, k.size), ''{}'') from ('
            ' select x.topic_id, (sum(pg_column_size(x.payloads) + 100) * 100 / %1$s)::bigint as size'
            ' from %2$s x tablesample system (%1$s) group by 1) k', v_percent, v_table)
        into v_sizes;
        update mqpg.segment s set sizes = v_sizes where s.family = 'log' and s.segment_no = v_segment.segment_no;
    end loop;
end
$$;
