-- The op-log entry of a half message, locked, so that answers to one check come one after the
-- other.
-- Locks: the entry's row. Cost: one index lookup.
create function mqpg._entry(message_id bigint) returns table (msg_id bigint, vt timestamptz)
language sql as $$
    select q.msg_id, q.vt from pgmq.q_mqpg_oplog q
    where (q.message ->> 'message_id')::bigint = _entry.message_id
    for update
$$;
