-- Raises for a number that is null or not between `lowest` and `highest`.
-- Locks: none. Cost: negligible.
create function mqpg._require_range(argument text, value bigint, lowest bigint, highest bigint) returns void
language plpgsql immutable as $$
begin
    if _require_range.value is null or _require_range.value not between _require_range.lowest
        and _require_range.highest then
        raise exception using errcode = 'MQ001', message = format(
            '%s must be between %s and %s, not %s', _require_range.argument, _require_range.lowest,
            _require_range.highest, coalesce(_require_range.value::text, 'null'));
    end if;
end
$$;
