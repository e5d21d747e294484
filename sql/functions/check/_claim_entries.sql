-- Takes entries of one producer group that were overdue at `upto` out of the op-log queue, oldest first, and
-- hides them for the lease, as pgmq.read does; but that one's filter cannot use an index (it compares the whole
-- message inside a CASE), and so every entry of a dead group would be walked over for each of the others. It
-- also takes whole seconds only. last_read_at is left alone, for older PGMQ lack it; check_log knows better.
-- Locks: the rows, those of others are skipped. Cost: one index range, one update an entry.
create function mqpg._claim_entries(producer_group text, most int, lease interval, upto timestamptz)
returns table (msg_id bigint, handle text)
language sql as $$
    with due as materialized (
        select q.msg_id from pgmq.q_mqpg_oplog q
        where q.message ->> 'producer_group' = _claim_entries.producer_group and q.vt <= _claim_entries.upto
        order by q.vt
        limit _claim_entries.most
        for update skip locked
    )
    update pgmq.q_mqpg_oplog q set vt = clock_timestamp() + _claim_entries.lease, read_ct = q.read_ct + 1
    from due
    where q.msg_id = due.msg_id
    returning q.msg_id, q.message ->> 'handle'
$$;
comment on function mqpg._claim_entries(text, int, interval, timestamptz)
    is 'Internal: lease overdue entries of a group';
