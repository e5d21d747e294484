-- The partitioned tables of a segment family, in the order in which they are merged and dropped,
-- each with the one after it, and how many units of each table one unit of the segment's bounds is:
-- decisions and checks are partitioned by message id, which is batch id * 1024.
-- Locks: none. Cost: negligible.
create function mqpg._family_tables(family text) returns table (parent text, per_unit int, next_parent text)
language sql immutable as $$
    select f.parent, f.per_unit, lead(f.parent) over (order by f.place)
    from (values
        ('log', 1, 'commit_log', 1), ('log', 2, 'op_log', 1024), ('log', 3, 'check_log', 1024),
        ('tick', 1, 'consume_queue', 1), ('tick', 2, 'tick', 1), ('tick', 3, 'half_tick', 1),
        ('cursor', 1, 'cursor', 1), ('delayed', 1, 'delayed', 1), ('dedup', 1, 'dedup', 1)
    ) as f(family, place, parent, per_unit)
    where f.family = _family_tables.family
    order by f.place
$$;
