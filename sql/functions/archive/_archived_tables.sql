-- The tables of a segment family that an archive has: those that audits read. check_log, half_tick
-- and dedup are not among them.
-- Locks: none.
-- Cost: negligible.
create function mqpg._archived_tables(family text) returns table (parent text, per_unit int)
language sql immutable as $$
    select f.parent, f.per_unit
    from mqpg._family_tables(_archived_tables.family) f
    where f.parent not in ('check_log', 'half_tick', 'dedup')
$$;
