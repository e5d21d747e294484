-- Rows of delayed that are due by due_until and were not by due_from, the due time of the last tick; and
-- new ones (see _new_sends()) whose time lies before it.
-- Locks: none. Cost: index scans of what is due.
create function mqpg._newly_due(
    due_from timestamptz, due_until timestamptz, since xid8, late xid8 [], upto pg_snapshot
) returns setof mqpg.delayed
language sql stable as $$
    select d.* from mqpg.delayed d
    where d.visible_at > _newly_due.due_from and d.visible_at <= _newly_due.due_until
        and pg_visible_in_snapshot(d.xid, _newly_due.upto)
    union all
    select d.* from mqpg.delayed d
    where d.visible_at <= _newly_due.due_from
        and d.xid >= _newly_due.since and d.xid < pg_snapshot_xmax(_newly_due.upto)
        and pg_visible_in_snapshot(d.xid, _newly_due.upto)
    union all
    select d.* from mqpg.delayed d
    where d.visible_at <= _newly_due.due_from and d.xid = any(_newly_due.late)
        and pg_visible_in_snapshot(d.xid, _newly_due.upto)
$$;
