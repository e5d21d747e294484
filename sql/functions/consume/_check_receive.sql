-- Checks the arguments of receive (MQ001).
-- Locks: none. Cost: none to speak of.
create function mqpg._check_receive(
    subscription mqpg.subscription, queues int, max_messages int, lease interval, consumer text, queue_id int
) returns void
language plpgsql immutable as $$
begin
    if _check_receive.max_messages is null or _check_receive.max_messages not between 1 and 10000 then
        perform mqpg._check_range('max_messages', _check_receive.max_messages, 1, 10000);
    end if;
    if _check_receive.lease is null or _check_receive.lease not between interval '10 milliseconds'
        and interval '100 years' then
        perform mqpg._interval('lease', _check_receive.lease, '10 milliseconds');
    end if;
    if _check_receive.consumer is null and (_check_receive.subscription).mode in ('pinned', 'broadcast') then
        raise exception using errcode = 'MQ001', message = format(
            'consumer must be given where the mode is %s', (_check_receive.subscription).mode);
    end if;
    if _check_receive.consumer is not null then
        perform mqpg._check_name('consumer', _check_receive.consumer);
    end if;
    if _check_receive.queue_id is not null then
        perform mqpg._check_range('queue_id', _check_receive.queue_id, -1, _check_receive.queues - 1);
    end if;
end
$$;
comment on function mqpg._check_receive(mqpg.subscription, int, int, interval, text, int)
    is 'Internal: refuse invalid arguments of receive';
