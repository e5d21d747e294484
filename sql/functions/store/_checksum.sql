-- Computes the checksum of a record batch: of its bodies, then the keys, tags and headers, with null
-- for what a message has not. The batch id is the seed, so two rows whose contents were exchanged do
-- not match either. PostgreSQL keeps the hash function stable, because hash partitions depend on it.
-- Locks: none. Cost: one pass over the contents; the planner puts it in place of the call.
create function mqpg._checksum(batch_id bigint, payloads text [], keys text [], tags text [], headers jsonb [])
returns bigint
language sql immutable as $$
    select hash_array_extended(
        _checksum.payloads
        || coalesce(_checksum.keys, array_fill(null::text, array[cardinality(_checksum.payloads)]))
        || coalesce(_checksum.tags, array_fill(null::text, array[cardinality(_checksum.payloads)]))
        || coalesce(_checksum.headers::text [], array_fill(null::text, array[cardinality(_checksum.payloads)])),
        _checksum.batch_id)
$$;

-- That of a batch of one message, with less to evaluate.
create function mqpg._checksum(batch_id bigint, payload text, key text, tag text, headers jsonb) returns bigint
language sql immutable as $$
    select hash_array_extended(
        array[_checksum.payload, _checksum.key, _checksum.tag, _checksum.headers::text], _checksum.batch_id)
$$;
