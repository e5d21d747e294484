-- The partitions that keep() has released and that are not dropped yet, and closed segments whose
-- release is held up. The keeper process detaches and drops by this list.
-- state: attached; detaching (ALTER TABLE … DETACH PARTITION CONCURRENTLY waits, or was cut off);
-- detached (a table of its own). blocked_by: the sessions that use the partition or its parent.
-- Locks: none. Cost: reads segment, the catalog and the server's list of locks once.
create function mqpg._tables_to_drop() returns table (
    family text, segment_no bigint, leaving text, partition text, parent text, state text, since timestamptz,
    blocked_by int []
)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
begin
    perform mqpg._require_privilege('worker', 'operator', 'auditor');
    return query
    select s.family, s.segment_no, s.leaving, n.name, p.relname::text,
        case when i.inhrelid is null then 'detached' when i.inhdetachpending then 'detaching' else 'attached' end,
        least(s.blocked_since, s.leaving_since),
        array(
            select distinct l.pid from pg_locks l
            where l.locktype = 'relation' and l.database = (
                select d.oid from pg_database d where d.datname = current_database())
                and l.relation in (n.oid, i.inhparent) and l.granted and l.pid <> pg_backend_pid()
            order by 1)
    from mqpg.segment s
    cross join lateral (
        select mqpg._partition_name(f.parent, s.segment_no) as name,
            to_regclass('mqpg.' || mqpg._partition_name(f.parent, s.segment_no))::oid as oid
        from mqpg._family_tables(s.family) with ordinality as f(parent, per_unit, next_parent, place)
        where coalesce(
            f.parent = s.leaving, to_regclass('mqpg.' || mqpg._partition_name(f.parent, s.segment_no)) is not null)
        order by f.place limit 1
    ) as n
    left join pg_inherits i on i.inhrelid = n.oid
    left join pg_class p on p.oid = i.inhparent
    where s.dropped_at is null and (s.leaving is not null or s.blocked_since is not null);
end
$$;
