-- The time until a half message is checked again after `asked` checks: the group's check_after,
-- doubled with each check, at most the setting retry_delay_cap.
-- Locks: none. Cost: two lookups.
create function mqpg._back_off(producer_group_id int, asked int) returns interval
language sql stable as $$
    -- Seconds, because an interval cannot be doubled so often.
    select make_interval(secs => least(
        date_part('epoch', coalesce(g.check_after, interval '1 minute'))
            * power(2, least(greatest(_back_off.asked - 1, 0), 30)),
        date_part('epoch', mqpg._setting('retry_delay_cap')::interval)))
    from (values (1)) as one(one)
    left join mqpg.producer_group g on g.producer_group_id = _back_off.producer_group_id
$$;
