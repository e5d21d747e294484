-- How much the broker and each topic that has a max_bytes store, how fast that grows, and in how many
-- days it reaches max_bytes if retention drops nothing. The topic is null for the broker: its bytes are
-- those of its tables and indexes, and a topic's those of its bodies in the log. The rate is that of the
-- closed segments that were never merged; null: they cover less than an hour.
-- Locks: each table for a moment. Cost: one look at each table's files; if a topic has a limit, that of
-- _topic_sizes().
create function mqpg._growth()
returns table (topic text, bytes bigint, bytes_a_day float8, max_bytes bigint, days_left float8)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    perform mqpg._require_privilege('operator', 'auditor', 'worker');
    return query
    with closed as materialized (
        select s.family, s.segment_no, s.sizes, case
                when max(s.closed_at) over w - min(s.opened_at) over w > interval '1 hour'
                    then extract(epoch from max(s.closed_at) over w - min(s.opened_at) over w)::float8 / 86400
            end as days
        from mqpg.segment s
        where s.closed_at is not null and s.opened_at is not null and s.body_dropped_at is null
            and s.merged_at is null
        window w as ()
    ),
    stored as (
        select null::text as name, sum(pg_total_relation_size(c.oid))::bigint as bytes,
            nullif(mqpg._setting('max_bytes')::bigint, 0) as most, (
                select sum(pg_total_relation_size(to_regclass('mqpg.' || mqpg._partition_name(f.parent, s.segment_no))))
                    / min(s.days)
                from closed s cross join lateral mqpg._family_tables(s.family) f) as rate
        from pg_class c
        where c.relnamespace = 'mqpg'::regnamespace and c.relkind = 'r'
        union all
        select t.name, coalesce(((select mqpg._topic_sizes()) ->> t.topic_id::text)::bigint, 0), t.max_bytes, (
                select coalesce(sum((s.sizes ->> t.topic_id::text)::bigint), 0) / min(s.days)
                from closed s where s.sizes is not null)
        from mqpg.topic t
        where t.max_bytes is not null
    )
    select s.name, s.bytes, s.rate, s.most,
        case when s.most is not null then greatest(0, s.most - s.bytes) / nullif(s.rate, 0) end
    from stored s
    order by 5, 1;
end
$$;
