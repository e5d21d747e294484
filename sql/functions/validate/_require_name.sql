-- Raises for a name of a topic or a group that is null or does not have the allowed form.
-- Locks: none. Cost: one regular expression.
create function mqpg._require_name(argument text, value text) returns void
language plpgsql immutable as $$
begin
    if _require_name.value is null then
        raise exception using errcode = 'MQ001', message = format('%s must not be null', _require_name.argument);
    end if;
    if _require_name.value !~ '^[A-Za-z0-9][A-Za-z0-9_.-]{0,126}$' then
        raise exception using errcode = 'MQ002',
            message = format('%s %L is not a valid name', _require_name.argument, left(_require_name.value, 130)),
            hint = 'Names are 1 to 127 letters, digits, "_", "." or "-" and begin with a letter or digit.';
    end if;
end
$$;
