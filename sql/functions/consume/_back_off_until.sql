-- When a message that failed for the attempt-th time is delivered again: after `delay` or, if that
-- is null, after the subscription's retry_delay, doubled for each attempt up to the setting
-- retry_delay_cap.
-- Locks: none. Cost: one setting read.
create function mqpg._back_off_until(subscription mqpg.subscription, attempt int, delay interval) returns timestamptz
language sql volatile as $$
    -- Seconds, because an interval cannot be doubled so often.
    select clock_timestamp() + mqpg._seconds(coalesce(_back_off_until.delay, make_interval(secs => least(
        date_part('epoch', (_back_off_until.subscription).retry_delay)
            * power(2, least(_back_off_until.attempt - 1, 30)),
        date_part('epoch', greatest(
            mqpg._setting('retry_delay_cap')::interval, (_back_off_until.subscription).retry_delay))))))
$$;
