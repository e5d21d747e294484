-- Whether this session knows a cursor slot after this one, so that the writer of a version must copy
-- the cursor there: _copy_own_cursor(). A slot has the number of its partition. This looks at the
-- catalog rather than at segment, because an insert can go only where this session knows the
-- partition.
-- Locks: none. Cost: negligible (inlined).
create function mqpg._has_newer_slot(slot int) returns boolean
language sql stable as $$
    select to_regclass(mqpg._partition_name('mqpg.cursor', _has_newer_slot.slot + 1)) is not null
$$;
