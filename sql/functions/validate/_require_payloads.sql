-- Raises for payloads that are null, exceed the topic's limit, or are not in a flat array.
-- Locks: none. Cost: negligible; it looks at each size only if the whole array exceeds the limit.
create function mqpg._require_payloads(payloads text [], max_payload int) returns void
language plpgsql immutable as $$
declare
    v_at bigint;
    v_size int;
begin
    if _require_payloads.payloads is null then
        raise exception using errcode = 'MQ001', message = 'payloads must not be null';
    end if;
    if array_ndims(_require_payloads.payloads) > 1 then
        raise exception using errcode = 'MQ001', message = 'payloads must be a one-dimensional array';
    end if;
    if array_position(_require_payloads.payloads, null) is not null then
        raise exception using errcode = 'MQ001', message = format(
            'payloads[%s] must not be null', array_position(_require_payloads.payloads, null));
    end if;
    if pg_column_size(_require_payloads.payloads) > _require_payloads.max_payload then
        select u.o, octet_length(u.p) into v_at, v_size
        from unnest(_require_payloads.payloads) with ordinality as u(p, o)
        where octet_length(u.p) > _require_payloads.max_payload
        order by u.o limit 1;
        if found then
            raise exception using errcode = 'MQ010', message = format(
                'payloads[%s] has %s bytes; the topic allows %s', v_at, v_size, _require_payloads.max_payload);
        end if;
    end if;
end
$$;
