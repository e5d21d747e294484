-- The partitioned tables of a segment family in the order in which they are dropped and copied, how
-- many units of each table one unit of the segment's bounds is, and the column that the table is
-- partitioned by. Decisions and checks are partitioned by message id, which is batch id * 1024.
-- Locks: none.
-- Cost: negligible.
create function mqpg._family_tables(family text) returns table (parent text, per_unit int, key text)
language sql immutable as $$
    select f.parent, f.per_unit, f.key
    from (values
        ('log', 1, 'commit_log', 1, 'batch_id'), ('log', 2, 'op_log', 1024, 'message_id'),
        ('log', 3, 'check_log', 1024, 'message_id'), ('tick', 1, 'consume_queue', 1, 'tick_id'),
        ('tick', 2, 'tick', 1, 'tick_id'), ('tick', 3, 'half_tick', 1, 'half_tick_id'),
        ('cursor', 1, 'cursor', 1, 'slot'), ('delayed', 1, 'delayed', 1, 'written_at'),
        ('dedup', 1, 'dedup', 1, 'slot')
    ) as f(family, place, parent, per_unit, key)
    where f.family = _family_tables.family
    order by f.place
$$;
comment on function mqpg._family_tables(text) is 'Internal: tables of a segment family';
