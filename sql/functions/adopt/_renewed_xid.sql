-- The new transaction id of a row from another cluster: own for a row that the newest snapshot does
-- not see, '1' for one that the oldest snapshot sees, else '2'.
-- Locks: none. Cost: negligible.
create function mqpg._renewed_xid(xid xid8, own xid8, newest pg_snapshot, oldest pg_snapshot) returns xid8
language sql immutable as $$
    select case
        when not pg_visible_in_snapshot(_renewed_xid.xid, _renewed_xid.newest) then _renewed_xid.own
        when coalesce(pg_visible_in_snapshot(_renewed_xid.xid, _renewed_xid.oldest), false) then '1'::xid8
        else '2'::xid8
    end
$$;
