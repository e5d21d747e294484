-- The name of the table that a merge builds for a parent, without the schema.
-- Locks: none. Cost: negligible.
create function mqpg._merge_name(parent text, segment_no bigint) returns text
language sql immutable as $$
    select mqpg._partition_name(_merge_name.parent, _merge_name.segment_no) || '_merge'
$$;
