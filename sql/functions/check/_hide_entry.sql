-- Hides an entry of the check queue until a point in time. It replaces pgmq.set_vt(), which in
-- older versions of PGMQ accepts whole seconds only.
-- Locks: the entry's row. Cost: one update.
create function mqpg._hide_entry(msg_id bigint, until timestamptz) returns void
language sql as $$
    update pgmq.q_mqpg_oplog q set vt = _hide_entry.until where q.msg_id = _hide_entry.msg_id
$$;
