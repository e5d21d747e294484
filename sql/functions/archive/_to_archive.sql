-- The ranges of closed tables that are not archived and that keep() has not released, the oldest
-- first. Decisions are listed when none can come any more.
-- Locks: none. Cost: one look at each segment's row, and at archived_segment for each closed one.
create function mqpg._to_archive() returns table (
    table_name text, key_column text, family text, segment_no bigint, from_bound text, to_bound text
)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
begin
    perform mqpg._require_privilege('worker');
    return query
    select f.parent, mqpg._partition_column(f.parent), s.family, s.segment_no, u.from_bound, u.to_bound
    from mqpg.segment s
    cross join lateral mqpg._archived_tables(s.family) f
    cross join lateral mqpg._unarchived(
        f.parent, mqpg._scaled_bound(s.lower_bound, f.per_unit), mqpg._scaled_bound(s.upper_bound, f.per_unit)) u
    where mqpg._may_archive(s, f.parent)
    order by s.closed_at, s.family, s.segment_no, f.parent, u.from_bound;
end
$$;
