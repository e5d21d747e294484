-- Notes that nothing in a table of a closed segment is needed any more, so that it may be dropped.
-- The drop is always a later transaction. What a reader then needs instead of the table, the
-- survivors in held and the ends of queues in queue_tail, is therefore committed before the table
-- can disappear.
-- Locks: the segment's row.
-- Cost: negligible.
create function mqpg._allow_drop(family text, no bigint, parent text, since xid8 default null) returns void
language sql as $$
    update mqpg.segment s set
        leaving = _allow_drop.parent,
        leaving_since = clock_timestamp(),
        leaving_xid = _allow_drop.since,
        blocked_since = null,
        body_dropped_at = coalesce(s.body_dropped_at, clock_timestamp())
    where s.family = _allow_drop.family and s.segment_no = _allow_drop.no;
$$;
