-- Raises for a check_after under 10 ms, a negative delay, and either of them beyond the topic's
-- retention.
-- Locks: none. Cost: negligible.
create function mqpg._require_half_times(topic mqpg.topic, check_after interval, delay interval) returns void
language plpgsql immutable as $$
begin
    if _require_half_times.check_after is not null then
        perform mqpg._require_interval('check_after', _require_half_times.check_after, '10 milliseconds');
    end if;
    if _require_half_times.delay is not null then
        perform mqpg._require_interval('delay', _require_half_times.delay, '0');
    end if;
    if greatest(_require_half_times.check_after, _require_half_times.delay) > _require_half_times.topic.retention then
        raise exception using errcode = 'MQ001', message = format(
            '%s must lie within the topic''s retention of %s',
            case when _require_half_times.check_after > _require_half_times.topic.retention then 'check_after'
                else 'delay' end,
            _require_half_times.topic.retention);
    end if;
end
$$;
