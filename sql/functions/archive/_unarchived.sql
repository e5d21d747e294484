-- The parts of a range of one table that are not archived.
-- Arguments:
--   table_name: one of the tables that _archived_tables() names.
--   lower_bound, upper_bound: in units of the table's partition key.
-- Locks: none.
-- Cost: reads the table's rows of archived_segment.
create function mqpg._unarchived(table_name text, lower_bound text, upper_bound text)
returns table (from_bound text, to_bound text)
language plpgsql stable set timezone = 'UTC' set datestyle = 'ISO' as $$
begin
    if _unarchived.table_name = 'delayed' then
        return query
        select lower(r.r)::text, upper(r.r)::text
        from unnest(
            tstzmultirange(tstzrange(_unarchived.lower_bound::timestamptz, _unarchived.upper_bound::timestamptz))
            - coalesce((
                select range_agg(tstzrange(a.lower_bound::timestamptz, a.upper_bound::timestamptz))
                from mqpg.archived_segment a
                where a.table_name = _unarchived.table_name
                    and a.upper_bound::timestamptz > _unarchived.lower_bound::timestamptz
                    and a.lower_bound::timestamptz < _unarchived.upper_bound::timestamptz), '{}')) as r(r);
    else
        return query
        select lower(r.r)::text, upper(r.r)::text
        from unnest(
            int8multirange(int8range(_unarchived.lower_bound::bigint, _unarchived.upper_bound::bigint))
            - coalesce((
                select range_agg(int8range(a.lower_bound::bigint, a.upper_bound::bigint))
                from mqpg.archived_segment a
                where a.table_name = _unarchived.table_name
                    and a.upper_bound::bigint > _unarchived.lower_bound::bigint
                    and a.lower_bound::bigint < _unarchived.upper_bound::bigint), '{}')) as r(r);
    end if;
end
$$;
