-- Raises for faulty arrays of send_batch() and prepare_batch().
-- Locks: none. Cost: one look at each key and tag.
create function mqpg._require_batch(
    max_payload int, payloads text [], keys text [], tags text [], headers jsonb []
) returns void
language plpgsql immutable as $$
declare
    v_n int := cardinality(_require_batch.payloads);
begin
    perform mqpg._require_payloads(_require_batch.payloads, _require_batch.max_payload);
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
