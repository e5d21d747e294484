-- Raises for an interval that is null, shorter than `lowest` or longer than 100 years. These are 36000
-- days if PostgreSQL compares them, and 36525 days as exact seconds, which _seconds() makes.
-- Locks: none. Cost: negligible.
create function mqpg._require_interval(argument text, value interval, lowest interval) returns void
language plpgsql immutable as $$
begin
    if _require_interval.value is null or _require_interval.value < _require_interval.lowest
        or _require_interval.value > (case date_part('year', _require_interval.value)
            when 0 then interval '36525 days' else interval '100 years' end) then
        raise exception using errcode = 'MQ001', message = format(
            '%s must be an interval from %s to 100 years, not %s', _require_interval.argument, _require_interval.lowest,
            coalesce(_require_interval.value::text, 'null'));
    end if;
end
$$;
