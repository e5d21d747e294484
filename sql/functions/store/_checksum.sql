-- Computes the checksum of a record batch: of its bodies, then the keys, tags and headers, with null
-- for what a message has not. The batch id is in the seed, so two rows whose contents were exchanged do
-- not match either, and so are the topic and, of half messages, the producer group and the time until
-- the check-back. PostgreSQL keeps the hash functions stable, because hash partitions depend on them.
-- Locks: none. Cost: one pass over the contents; the planner puts it in place of the call.
create function mqpg._checksum(
    batch_id bigint, topic_id int, payloads text [], keys text [], tags text [], headers jsonb [],
    producer_group_id int default null, check_after interval default null
) returns bigint
language sql immutable as $$
    select hash_array_extended(
        _checksum.payloads
        || coalesce(_checksum.keys, array_fill(null::text, array[cardinality(_checksum.payloads)]))
        || coalesce(_checksum.tags, array_fill(null::text, array[cardinality(_checksum.payloads)]))
        || coalesce(_checksum.headers::text [], array_fill(null::text, array[cardinality(_checksum.payloads)])),
        int8xor(
            int8xor(_checksum.batch_id, _checksum.topic_id::bigint << 32),
            coalesce(hash_array_extended(array[_checksum.check_after], _checksum.producer_group_id), 0)))
$$;

-- That of a batch of one message, with less to evaluate. It is plpgsql, not sql: in place of the call,
-- its parts would be prepared by each statement that has it, also for topics without checksums.
create function mqpg._checksum(
    batch_id bigint, topic_id int, payload text, key text, tag text, headers jsonb,
    producer_group_id int default null, check_after interval default null
) returns bigint
language plpgsql immutable as $$
begin
    return hash_array_extended(
        array[_checksum.payload, _checksum.key, _checksum.tag, _checksum.headers::text],
        int8xor(
            int8xor(_checksum.batch_id, _checksum.topic_id::bigint << 32),
            coalesce(hash_array_extended(array[_checksum.check_after], _checksum.producer_group_id), 0)));
end
$$;
