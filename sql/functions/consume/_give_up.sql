-- Sends one message to the retry lane or, its attempts being used up, to the dead letters.
-- Locks: none beyond the new row. Cost: one row.
create function mqpg._give_up(
    subscription mqpg.subscription, message_id bigint, deliver_id bigint, attempt int, reason text, delay interval,
    consumer text default null
) returns void
language plpgsql as $$
begin
    if _give_up.attempt >= (_give_up.subscription).max_attempts then
        perform mqpg._bury(
            (_give_up.subscription).subscription_id, array[_give_up.message_id], array[_give_up.deliver_id],
            array[_give_up.attempt], _give_up.reason, _give_up.consumer);
        return;
    end if;
    insert into mqpg.delayed (
        visible_at, xid, first_id, deliver_id, n, written_at, topic_id, subscription_id, queue_id, attempt, reason,
        consumer)
    values (
        mqpg._back_off_until(_give_up.subscription, _give_up.attempt, _give_up.delay), pg_current_xact_id(),
        _give_up.message_id, nullif(_give_up.deliver_id, _give_up.message_id), 1, clock_timestamp(),
        (_give_up.subscription).topic_id, (_give_up.subscription).subscription_id, -1, _give_up.attempt + 1,
        _give_up.reason, _give_up.consumer);
end
$$;
comment on function mqpg._give_up(mqpg.subscription, bigint, bigint, int, text, interval, text)
    is 'Internal: retry or bury one message';
