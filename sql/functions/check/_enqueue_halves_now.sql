-- Puts half messages up to this moment into the check queue, for callers other than append(). It
-- first reads the sequence and then takes the snapshot, once, in a transaction that has no xid yet.
-- Locks: 1836150834, 1, tried only.
-- Cost: an index scan of the new half messages.
-- Errors: MQ015, MQ016 (a copy must not ask the ledgers of its original).
create function mqpg._enqueue_halves_now(function_name text) returns void
language plpgsql as $$
declare
    v_batch_seq bigint;
begin
    perform mqpg._require_own_transaction(_enqueue_halves_now.function_name);
    perform mqpg._require_own_database();
    select case when b.is_called then b.last_value else 0 end into v_batch_seq from mqpg.batch_id b;
    perform mqpg._enqueue_halves(pg_current_snapshot(), v_batch_seq);
end
$$;
