-- Raises for a value that is not one of the allowed words, which the error lists.
-- Locks: none. Cost: negligible.
create function mqpg._require_one_of(argument text, value text, allowed text []) returns void
language plpgsql immutable as $$
begin
    if _require_one_of.value is null or _require_one_of.value <> all(_require_one_of.allowed) then
        raise exception using errcode = 'MQ001', message = format(
            '%s must be one of %s, not %s', _require_one_of.argument, array_to_string(_require_one_of.allowed, ', '),
            coalesce(quote_literal(_require_one_of.value), 'null'));
    end if;
end
$$;
