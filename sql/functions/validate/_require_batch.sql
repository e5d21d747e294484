-- Raises for faulty arrays of send_batch() and prepare_batch().
-- Locks: none. Cost: one look at each key and tag; at each payload's size only if the whole array exceeds
-- the limit.
create function mqpg._require_batch(
    topic text, max_payload int, payloads text [], keys text [], tags text [], headers jsonb []
) returns void
language plpgsql immutable as $$
declare
    v_n int := cardinality(_require_batch.payloads);
begin
    if _require_batch.payloads is null then
        raise exception using errcode = 'MQ001', message = 'payloads must not be null';
    end if;
    if array_ndims(_require_batch.payloads) > 1 then
        raise exception using errcode = 'MQ001', message = 'payloads must be a one-dimensional array';
    end if;
    if array_position(_require_batch.payloads, null) is not null then
        raise exception using errcode = 'MQ001', message = format(
            'payloads[%s] must not be null', array_position(_require_batch.payloads, null));
    end if;
    if pg_column_size(_require_batch.payloads) > _require_batch.max_payload then
        perform mqpg._require_payload(format('payloads[%s]', u.o), u.p, _require_batch.topic, _require_batch.max_payload)
        from unnest(_require_batch.payloads) with ordinality as u(p, o)
        where octet_length(u.p) > _require_batch.max_payload;
    end if;
    if _require_batch.keys is not null then
        perform mqpg._require_shape('keys', _require_batch.keys, v_n);
        perform mqpg._require_keys_and_tags('keys', _require_batch.keys);
    end if;
    if _require_batch.tags is not null then
        perform mqpg._require_shape('tags', _require_batch.tags, v_n);
        perform mqpg._require_keys_and_tags('tags', _require_batch.tags);
    end if;
    if _require_batch.headers is not null then
        perform mqpg._require_shape('headers', _require_batch.headers, v_n);
        perform mqpg._require_headers(_require_batch.headers, _require_batch.max_payload);
    end if;
end
$$;
