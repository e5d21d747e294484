-- Raises 40001 if a message that the caller does not see may exist nevertheless: its batch id was
-- given out, and the snapshot of a REPEATABLE READ or SERIALIZABLE transaction is older than a
-- transaction that has committed, or than what keep() did with the message's segment. A new
-- transaction sees it. A null asks whether anything may be newer.
-- Locks: none. Cost: one setting in READ COMMITTED; else a few lookups, and one for each
-- transaction since the snapshot, at most 1024.
-- Errors: 40001.
create function mqpg._require_fresh(message_id bigint) returns void
language plpgsql stable as $$
declare
    v_batch bigint := _require_fresh.message_id / 1024;
    v_snapshot pg_snapshot;
    v_xid bigint;
    v_is_missing boolean := false;
begin
    if current_setting('transaction_isolation') = 'read committed'
        or v_batch > (select b.last_value from mqpg.batch_id b) then
        return;
    end if;
    if v_batch <= (select t.floor_id from mqpg.tick t order by t.tick_id desc limit 1) then
        v_is_missing := exists (
            select from mqpg.segment s
            where s.family = 'log' and s.lower_bound::bigint <= v_batch and s.upper_bound::bigint > v_batch
                and s.body_dropped_at is null and not mqpg._is_attached('commit_log', s.segment_no));
    else
        v_snapshot := pg_current_snapshot();
        begin
            for v_xid in
                select x.xid::text::bigint from pg_snapshot_xip(v_snapshot) as x(xid)
                union all
                select pg_snapshot_xmax(v_snapshot)::text::bigint + i from generate_series(0, 1024) as i
            loop
                v_is_missing := pg_xact_status(v_xid::text::xid8) is distinct from 'aborted'
                    and pg_xact_status(v_xid::text::xid8) is distinct from 'in progress';
                exit when v_is_missing;
            end loop;
        exception when invalid_parameter_value then
            null;   -- a transaction that has not begun
        end;
    end if;
    if v_is_missing then
        raise exception using errcode = 'serialization_failure',
            message = coalesce('message ' || _require_fresh.message_id, 'what is asked for')
                || ' may be newer than the snapshot of this transaction',
            hint = 'Repeat the transaction, or use READ COMMITTED.';
    end if;
end
$$;
