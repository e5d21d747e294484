-- Raises for a target that is neither 'earliest', 'latest' nor a time.
-- Locks: none. Cost: negligible.
create function mqpg._require_target(argument text, target text) returns void
language plpgsql stable as $$
begin
    if _require_target.target is null then
        raise exception using errcode = 'MQ001', message = format('%s must not be null', _require_target.argument);
    end if;
    if _require_target.target not in ('earliest', 'latest') then
        perform _require_target.target::timestamptz;
    end if;
exception when invalid_datetime_format or datetime_field_overflow or invalid_time_zone_displacement_value
    or invalid_parameter_value then
    raise exception using errcode = 'MQ001', message = format(
        '%s must be earliest, latest or a time, not %L', _require_target.argument, left(_require_target.target, 100));
end
$$;
