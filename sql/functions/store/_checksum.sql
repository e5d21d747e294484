-- Computes the checksum of a record batch's bodies. The batch id is the seed, so two rows whose
-- bodies were exchanged do not match either. PostgreSQL keeps the hash function stable, because
-- hash partitions depend on it.
-- Locks: none. Cost: one pass over the bodies; the planner puts it in place of the call.
create function mqpg._checksum(batch_id bigint, payloads text []) returns bigint
language sql immutable as $$
    select hash_array_extended(_checksum.payloads, _checksum.batch_id)
$$;
