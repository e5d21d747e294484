-- Raises for an array argument of a batch that has several dimensions or does not have one element
-- for each payload. Null is allowed.
-- Locks: none. Cost: negligible.
create function mqpg._require_shape(argument text, value anyarray, n int) returns void
language plpgsql immutable as $$
begin
    if _require_shape.value is not null
        and (array_ndims(_require_shape.value) > 1 or cardinality(_require_shape.value) <> _require_shape.n) then
        raise exception using errcode = 'MQ001', message = format(
            '%s must be a one-dimensional array of %s elements, one for each payload, not %s', _require_shape.argument,
            _require_shape.n, cardinality(_require_shape.value));
    end if;
end
$$;
