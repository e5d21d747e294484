-- Leases entries of one producer group that were overdue at `upto` from the check queue, oldest
-- first. It replaces pgmq.read(), whose filter cannot use an index, so that each read would go over
-- all entries of a group whose checker fails; it also allows leases in fractions of a second. It
-- leaves last_read_at unchanged, because older versions of PGMQ lack that column.
-- With `place` it takes only half messages whose ledger was noted there, and with `unmarked` those
-- that carry no ledger.
-- Locks: the entries' rows; entries that others have locked are skipped.
-- Cost: one index range, and one update for each entry; with `place` also a lookup for each.
create function mqpg._claim_entries(
    producer_group text, most int, lease interval, upto timestamptz, place text default null,
    unmarked boolean default true
)
returns table (msg_id bigint, handle text)
language sql as $$
    with due as materialized (
        select q.msg_id from pgmq.q_mqpg_oplog q
        where q.message ->> 'producer_group' = _claim_entries.producer_group and q.vt <= _claim_entries.upto
            and (_claim_entries.place is null or case
                when q.message ->> 'ledger' is null then _claim_entries.unmarked
                else mqpg._is_ledger_at(
                    _claim_entries.producer_group, q.message ->> 'ledger', _claim_entries.place)
            end)
        order by q.vt
        limit _claim_entries.most
        for update skip locked
    )
    update pgmq.q_mqpg_oplog q set vt = clock_timestamp() + mqpg._seconds(_claim_entries.lease), read_ct = q.read_ct + 1
    from due
    where q.msg_id = due.msg_id
    returning q.msg_id, q.message ->> 'handle'
$$;
