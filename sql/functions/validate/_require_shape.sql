-- Checks the shape of a batch argument: one dimension and as many elements as there are payloads (MQ001).
-- Locks: none. Cost: none to speak of.
create function mqpg._require_shape(argument text, value anyarray, n int) returns void
language plpgsql immutable as $$
begin
    if _require_shape.value is not null
        and (array_ndims(_require_shape.value) > 1 or cardinality(_require_shape.value) <> _require_shape.n) then
        raise exception using errcode = 'MQ001', message = format(
            '%s must be a one-dimensional array of %s elements, one a payload, not %s', _require_shape.argument,
            _require_shape.n, cardinality(_require_shape.value));
    end if;
end
$$;
comment on function mqpg._require_shape(text, anyarray, int) is 'Internal: refuse a batch argument of another length';
