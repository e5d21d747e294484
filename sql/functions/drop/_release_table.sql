-- Releases a table of a closed segment: notes in the column `leaving` that nothing in it is needed any
-- more, so that it may be dropped. The drop is always a later transaction. What a reader then needs
-- instead of the table, the survivors in held and the ends of queues in queue_tail, is therefore
-- committed before the table can disappear.
-- Locks: the segment's row.
-- Cost: negligible.
create function mqpg._release_table(family text, no bigint, parent text, since xid8 default null) returns void
language sql as $$
    update mqpg.segment s set
        leaving = _release_table.parent,
        leaving_since = clock_timestamp(),
        leaving_xid = _release_table.since,
        blocked_since = null,
        body_dropped_at = coalesce(s.body_dropped_at, clock_timestamp())
    where s.family = _release_table.family and s.segment_no = _release_table.no;
$$;
