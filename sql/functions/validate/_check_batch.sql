-- Checks the arrays of send_batch and prepare_batch (MQ001, MQ010).
-- Locks: none. Cost: one look at each key and tag.
create function mqpg._check_batch(
    max_payload int, payloads text [], keys text [], tags text [], headers jsonb []
) returns void
language plpgsql immutable as $$
declare
    v_n int := cardinality(_check_batch.payloads);
begin
    perform mqpg._check_payloads(_check_batch.payloads, _check_batch.max_payload);
    if _check_batch.keys is not null then
        perform mqpg._check_shape('keys', _check_batch.keys, v_n);
        perform mqpg._check_labels('keys', _check_batch.keys);
    end if;
    if _check_batch.tags is not null then
        perform mqpg._check_shape('tags', _check_batch.tags, v_n);
        perform mqpg._check_labels('tags', _check_batch.tags);
    end if;
    perform mqpg._check_shape('headers', _check_batch.headers, v_n);
end
$$;
comment on function mqpg._check_batch(int, text [], text [], text [], jsonb [])
    is 'Internal: refuse faulty arrays of a batch';
