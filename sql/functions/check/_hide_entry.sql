-- Hides an entry of the op-log queue until a point in time: pgmq.set_vt(), which takes a point in time in newer
-- versions of PGMQ only, and whole seconds in others.
-- Locks: the row. Cost: one update.
create function mqpg._hide_entry(msg_id bigint, until timestamptz) returns void
language sql as $$
    update pgmq.q_mqpg_oplog q set vt = _hide_entry.until where q.msg_id = _hide_entry.msg_id
$$;
comment on function mqpg._hide_entry(bigint, timestamptz) is 'Internal: hide an op-log entry for a while';
