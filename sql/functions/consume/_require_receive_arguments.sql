-- Validates the arguments of receive().
-- Locks: none. Cost: negligible.
-- Errors: MQ001.
create function mqpg._require_receive_arguments(
    subscription mqpg.subscription, queues int, max_messages int, lease interval, consumer text, queue_id int
) returns void
language plpgsql immutable as $$
begin
    if _require_receive_arguments.max_messages is null or _require_receive_arguments.max_messages not between 1
        and 10000 then
        perform mqpg._require_range('max_messages', _require_receive_arguments.max_messages, 1, 10000);
    end if;
    if _require_receive_arguments.lease is null
        or _require_receive_arguments.lease not between interval '10 milliseconds'
        and interval '100 years' then
        perform mqpg._require_interval('lease', _require_receive_arguments.lease, '10 milliseconds');
    end if;
    if _require_receive_arguments.consumer is null
        and (_require_receive_arguments.subscription).mode in ('pinned', 'broadcast') then
        raise exception using errcode = 'MQ001', message = format(
            'consumer must not be null in mode %s', (_require_receive_arguments.subscription).mode);
    end if;
    if _require_receive_arguments.consumer is not null then
        perform mqpg._require_name('consumer', _require_receive_arguments.consumer);
    end if;
    if _require_receive_arguments.queue_id is not null then
        perform mqpg._require_range('queue_id', _require_receive_arguments.queue_id, -1,
            _require_receive_arguments.queues - 1);
    end if;
end
$$;
