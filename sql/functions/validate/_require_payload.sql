-- Raises for a payload that is null or larger than its topic allows.
-- Locks: none. Cost: negligible.
-- Errors: MQ001 (null), MQ010.
create function mqpg._require_payload(argument text, payload text, topic text, max_payload int) returns void
language plpgsql immutable as $$
begin
    if _require_payload.payload is null then
        raise exception using errcode = 'MQ001', message = format('%s must not be null', _require_payload.argument);
    end if;
    if octet_length(_require_payload.payload) > _require_payload.max_payload then
        raise exception using errcode = 'MQ010', message = format(
            '%s has %s bytes; topic %L allows %s', _require_payload.argument, octet_length(_require_payload.payload),
            _require_payload.topic, _require_payload.max_payload);
    end if;
end
$$;
