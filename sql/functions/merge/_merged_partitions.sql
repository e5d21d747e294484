-- The partitions that a merge of segments replaces, in a fixed order.
-- Locks: none. Cost: a few lookups in the catalog.
create function mqpg._merged_partitions(merge mqpg.segment_merge) returns oid []
language sql stable as $$
    select coalesce(array_agg(i.inhrelid order by i.inhrelid), '{}')
    from mqpg._family_tables((_merged_partitions.merge).family) f
    cross join unnest((_merged_partitions.merge).segment_nos) as u(segment_no)
    join pg_inherits i on i.inhrelid = to_regclass('mqpg.' || mqpg._partition_name(f.parent, u.segment_no))
    where not i.inhdetachpending
$$;
