-- Refuses a number that is null or outside least..greatest (MQ001), naming the argument.
-- Locks: none. Cost: none to speak of.
create function mqpg._check_range(argument text, value bigint, lowest bigint, highest bigint) returns void
language plpgsql immutable as $$
begin
    if _check_range.value is null or _check_range.value not between _check_range.lowest and _check_range.highest then
        raise exception using errcode = 'MQ001', message = format(
            '%s must be between %s and %s, not %s', _check_range.argument, _check_range.lowest,
            _check_range.highest, coalesce(_check_range.value::text, 'null'));
    end if;
end
$$;
comment on function mqpg._check_range(text, bigint, bigint, bigint) is 'Internal: refuse a number out of range';
