-- Drops and merges that open transactions hold up; see the view blocked_segments.
-- Locks: none.
-- Cost: reads the server's list of locks once or twice.
create function mqpg._blocked_segments() returns table (
    family text, segment_no bigint, table_name text, state text, since timestamptz, age interval, blocked_by int []
)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
begin
    perform mqpg._require_privilege('operator', 'auditor', 'worker');
    return query
    select b.family, b.segment_no, b.table_name, b.state, b.since, clock_timestamp() - b.since, b.blocked_by
    from (
        select l.family, l.segment_no, l.partition as table_name, l.state, l.since, l.blocked_by
        from mqpg._tables_to_drop() l
        union all
        select m.family, m.segment_no, m.table_name, 'merging', m.since, m.blocked_by
        from mqpg._blocked_merges() m
    ) b
    order by b.since;
end
$$;
