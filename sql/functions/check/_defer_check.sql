-- Leaves a half message whose local transaction is not over alone for retry_after, or for the
-- back-off. The ask before no longer counts as a check if the answer came within its lease.
-- Locks: the caller holds the entry's row.
-- Cost: two lookups, an insert, an update.
create function mqpg._defer_check(
    message_id bigint, producer_group_id int, msg_id bigint, retry_after interval, in_time boolean, by text,
    reason text
) returns void
language sql as $$
    select mqpg._log_check(
        _defer_check.message_id,
        case
            when _defer_check.in_time and (
                select c.event from mqpg.check_log c
                where c.message_id = _defer_check.message_id order by c.at desc limit 1) = 'asked' then 'waited'
            else 'waited late'
        end, _defer_check.by, _defer_check.reason);
    -- Not by pgmq.set_vt(), which in older versions of PGMQ accepts whole seconds only.
    update pgmq.q_mqpg_oplog q set vt = clock_timestamp() + coalesce(
        mqpg._seconds(_defer_check.retry_after),
        mqpg._back_off(_defer_check.producer_group_id, (
            select c.asked from mqpg._check_count(_defer_check.message_id) c)))
    where q.msg_id = _defer_check.msg_id
$$;
