-- Refuses an interval that is null, shorter than `lowest` or longer than 100 years (MQ001).
-- Locks: none. Cost: none to speak of.
create function mqpg._interval(argument text, value interval, lowest interval) returns void
language plpgsql immutable as $$
begin
    if _interval.value is null or _interval.value < _interval.lowest or _interval.value > interval '100 years' then
        raise exception using errcode = 'MQ001', message = format(
            '%s must be an interval from %s to 100 years, not %s', _interval.argument, _interval.lowest,
            coalesce(_interval.value::text, 'null'));
    end if;
end
$$;
comment on function mqpg._interval(text, interval, interval) is 'Internal: refuse an interval out of range';
