-- The name of the partition of a table that belongs to a segment; with the schema if `parent` has it.
-- No other function makes up the name.
-- Locks: none. Cost: negligible (inlined: without the cast to text it would not be immutable).
create function mqpg._partition_name(parent text, segment_no bigint) returns text
language sql immutable as $$
    select _partition_name.parent || '_' || _partition_name.segment_no::text
$$;
