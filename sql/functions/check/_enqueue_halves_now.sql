-- _enqueue_halves() up to this moment, for callers other than append(): the sequence first, then the snapshot,
-- once, into a variable, in a transaction that has no xid yet.
-- Locks: as _enqueue_halves(). Cost: its. Errors: MQ015.
create function mqpg._enqueue_halves_now(function_name text) returns void
language plpgsql as $$
declare
    v_batch_seq bigint;
    v_snapshot pg_snapshot;
begin
    perform mqpg._require_own_transaction(_enqueue_halves_now.function_name);
    select case when b.is_called then b.last_value else 0 end into v_batch_seq from mqpg.batch_id b;
    v_snapshot := pg_current_snapshot();
    perform mqpg._enqueue_halves(v_snapshot, v_batch_seq);
end
$$;
comment on function mqpg._enqueue_halves_now(text) is 'Internal: feed the op-log queue up to now';
