-- Whether a range of a family is archived, in all of its tables or in one of them.
-- Arguments:
--   family: the family of segments.
--   lower_bound, upper_bound: in units of the segments' bounds.
--   parent: the table; null: all tables of the family.
-- Locks: none.
-- Cost: reads archived_segment once for each table.
create function mqpg._is_archived(family text, lower_bound text, upper_bound text, parent text default null)
returns boolean
language sql stable as $$
    select not exists (
        select from mqpg._archived_tables(_is_archived.family) f
        cross join lateral mqpg._unarchived(
            f.parent, mqpg._scaled_bound(_is_archived.lower_bound, f.per_unit),
            mqpg._scaled_bound(_is_archived.upper_bound, f.per_unit)) u
        where f.parent = coalesce(_is_archived.parent, f.parent))
$$;
