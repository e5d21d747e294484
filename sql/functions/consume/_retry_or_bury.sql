-- Writes one failed message into the retry lane or, if its attempts are used up, into the dead
-- letters. Returns when it is retried, or null.
-- Locks: none beyond the new row. Cost: one row.
create function mqpg._retry_or_bury(
    subscription mqpg.subscription, message_id bigint, deliver_id bigint, attempt int, reason text, delay interval,
    consumer text default null
) returns timestamptz
language plpgsql as $$
declare
    v_now timestamptz := clock_timestamp();
    v_visible_at timestamptz;
begin
    if _retry_or_bury.attempt >= (_retry_or_bury.subscription).max_attempts then
        perform mqpg._bury(
            (_retry_or_bury.subscription).subscription_id, array[_retry_or_bury.message_id],
            array[_retry_or_bury.deliver_id], array[_retry_or_bury.attempt], _retry_or_bury.reason,
            _retry_or_bury.consumer);
        return null;
    end if;
    insert into mqpg.delayed (
        visible_at, xid, first_id, deliver_id, n, written_at, topic_id, subscription_id, queue_id, attempt, reason,
        consumer)
    select
        mqpg._back_off_until(_retry_or_bury.subscription, _retry_or_bury.attempt, _retry_or_bury.delay) + b.ahead,
        pg_current_xact_id(), _retry_or_bury.message_id,
        nullif(_retry_or_bury.deliver_id, _retry_or_bury.message_id), 1,
        -- Not before the last purge, whose time may be later than that of the broker.
        greatest(b.written_at, (_retry_or_bury.subscription).retries_from), (_retry_or_bury.subscription).topic_id,
        (_retry_or_bury.subscription).subscription_id, -1, _retry_or_bury.attempt + 1, _retry_or_bury.reason,
        _retry_or_bury.consumer
    from mqpg._broker_time(v_now) b
    returning visible_at into v_visible_at;
    return v_visible_at;
end
$$;
