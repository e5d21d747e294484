-- Takes the entry of a decided half message out of the check queue. A parked one stays in the
-- archive as the record of it.
-- Locks: the entry's row; an entry that a check-back holds is left to it.
-- Cost: one index lookup, one delete.
create function mqpg._forget_entry(message_id bigint) returns void
language sql as $$
    delete from pgmq.q_mqpg_oplog q where q.msg_id = any(array(
        select e.msg_id from pgmq.q_mqpg_oplog e
        where (e.message ->> 'message_id')::bigint = _forget_entry.message_id
        for update skip locked))
$$;
