-- Whether a segment's partition is part of its table now, whatever snapshot the caller has. A
-- partition that is being detached is not.
-- Locks: none. Cost: a few lookups in the catalog's caches.
create function mqpg._is_attached(parent text, segment_no bigint) returns boolean
language sql stable as $$
    select coalesce(
        pg_partition_root(to_regclass('mqpg.' || mqpg._partition_name(_is_attached.parent, _is_attached.segment_no)))
        = to_regclass('mqpg.' || _is_attached.parent), false)
$$;
