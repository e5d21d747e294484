-- Writes one decision over the half messages of a batch at once if their handles name consecutive
-- messages of one record batch, in order, none of which is decided yet. That is what
-- prepare_batch() without keys returns. It returns whether this call decided them: all or none. If
-- none, the caller takes the general way, which costs more.
-- All or none needs no ON CONFLICT, which costs a lock, an index lookup and a WAL record for each
-- row. The primary key still says which decision was first: if another one was faster, the insert
-- fails and is undone to the last row. The look before it only keeps repeated calls from leaving
-- dead rows, so it need not see decisions that are under way. The keys are taken in ascending
-- order, as by all callers of _decide_batch(), and given back before it returns false, so it cannot
-- deadlock with them.
-- SERIALIZABLE callers take the general way, because the look would be a read that conflicts with
-- the decisions of all others about neighbouring half messages. So do half messages that have a
-- delay, belong to a relay topic or survive in the table held.
-- Locks: the op_log keys; waits for decisions that are under way.
-- Cost: one row read, one written for each, one subtransaction.
create function mqpg._decide_run(handles text [], op "char", decided_by text) returns boolean
language plpgsql set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off as $$
declare
    v_n int := cardinality(_decide_run.handles);
    v_first bigint;
    v_last bigint;
    v_batch record;
    v_xid xid8;
    v_order bigint;
    v_now timestamptz;
begin
    if v_n not between 2 and 1024 or array_lower(_decide_run.handles, 1) <> 1
        or not mqpg._is_handle(_decide_run.handles[1]) or current_setting('transaction_isolation') = 'serializable' then
        return false;
    end if;
    v_first := split_part(_decide_run.handles[1], '.', 3)::bigint;
    v_last := v_first + v_n - 1;
    select l.nonce, l.incarnation, l.topic_id, l.queue_id, l.producer_group_id, b.broker_id into v_batch
    from mqpg.commit_log l
    cross join mqpg.broker b
    where l.batch_id = v_first / 1024 and v_first % 1024 + v_n <= l.n and l.nonce is not null
        and l.delay is null and l.relay is null
        and not exists (
            select from mqpg.op_log o
            where o.message_id >= v_first and o.message_id <= v_last and o.stage = 0);
    if not found or _decide_run.handles <> array(
        select mqpg._handle(v_batch.broker_id, v_batch.incarnation, v_first + i, v_batch.nonce)
        from generate_series(0, v_n - 1) as i) then
        return false;
    end if;
    if not mqpg._is_owner() then
        perform mqpg._require_half_of(coalesce(v_batch.producer_group_id, 0));
    end if;
    v_xid := pg_current_xact_id();    -- before the order number is drawn
    v_order := nextval('mqpg.batch_id');
    v_now := clock_timestamp();
    begin
        insert into mqpg.op_log (message_id, stage, order_no, xid, op, at, topic_id, queue_id, decided_by)
        select v_first + i, 0, v_order, v_xid, _decide_run.op, v_now, v_batch.topic_id, v_batch.queue_id,
            _decide_run.decided_by
        from generate_series(0, v_n - 1) as i;
    exception when unique_violation then
        return false;
    end;
    return true;
end
$$;
