-- About how many bytes of bodies, headers and keys each topic has in a log segment, as
-- {topic_id: bytes}. It reads a sample of at most about 200 pages and no stored-away values. Null: the
-- table is gone.
-- Locks: none. Cost: 200 pages.
create function mqpg._sampled_sizes(segment_no bigint) returns jsonb
language plpgsql as $$
declare
    v_table text := 'mqpg.' || mqpg._partition_name('commit_log', _sampled_sizes.segment_no);
    v_percent numeric;
    v_sizes jsonb;
begin
    if to_regclass(v_table) is null then
        return null;
    end if;
    v_percent := least(100, 100 * 200.0 / greatest(pg_relation_size(v_table) / current_setting('block_size')::int, 1));
    -- Repeatable, so that a size does not go up and down from one time to the next.
    execute format(
        'select coalesce(jsonb_object_agg(k.topic_id, k.size), ''{}'') from ('
        ' select x.topic_id, (sum(pg_column_size(x.payloads) + coalesce(pg_column_size(x.headers), 0)'
        '     + coalesce(pg_column_size(x.keys), 0) + 100) * 100 / %1$s)::bigint as size'
        ' from %2$s x tablesample system (%1$s) repeatable (0) group by 1) k', v_percent, v_table)
    into v_sizes;
    return v_sizes;
end
$$;
