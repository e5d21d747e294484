-- Turns a copy of a broker into a broker. Call it, before any other transaction writes, after a
-- dump was restored into another cluster, after a promotion, or after a recovery to a point in time
-- (append() refuses with MQ016 until then), and after a base backup was brought back.
-- It raises the incarnation, moves message ids, tick ids and cursor versions far beyond those that
-- the original may have used meanwhile, and frees all claims. Older receipts are then stale, while
-- older handles stay valid. In another cluster the transaction ids of all rows are meaningless, so
-- they are rewritten, and what had no offset yet is appended by the next append().
-- Arguments:
--   same_xids: true says that the transaction ids are those of the original cluster (pg_upgrade);
--       default false.
-- Returns: a text that says what was done.
-- Locks: the appender's and the keeper's; cursor and the log, against writers; after a restore all
-- hot tables, ACCESS EXCLUSIVE. Each is waited for up to the setting lock_timeout. A sender that
-- comes meanwhile waits, because its id may belong to a partition that is committed with adopt().
-- Cost: one version per cursor; after a restore every row of the hot tables is rewritten, the only
-- time that they see an UPDATE.
-- Errors: MQ001 (null), MQ015 (must be called in a READ COMMITTED transaction that has written
-- nothing), MQ016 (same_xids cannot be true), 55P03.
create function mqpg.adopt(same_xids boolean default false) returns text
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_may boolean := mqpg._require_privilege('operator');
    v_tick mqpg.tick;
    v_known bigint := (select b.system_identifier from mqpg.broker b);
    v_actual bigint := (select c.system_identifier from pg_control_system() c);
    v_behind boolean;
    v_foreign boolean;
    v_incarnation int;
begin
    if adopt.same_xids is null then
        raise exception using errcode = 'MQ001', message = 'same_xids must be true or false, not null';
    end if;
    perform mqpg._require_own_transaction('adopt');
    perform mqpg._apply_lock_timeout();
    lock table mqpg.append_lock in exclusive mode;
    perform pg_advisory_xact_lock(1836150834, 1);
    perform pg_advisory_xact_lock(1836150835, 0);
    lock table mqpg.cursor in share row exclusive mode;
    lock table only mqpg.commit_log, only mqpg.op_log, only mqpg.check_log in share row exclusive mode;
    update mqpg.segment s set decided_at = null where s.decided_at is not null;
    perform mqpg._cancel_merge(m.family, 'the broker was adopted') from mqpg.segment_merge m;
    select t.* into v_tick from mqpg.tick t order by t.tick_id desc limit 1;
    v_behind := v_tick.snapshot_xmax > pg_snapshot_xmax(pg_current_snapshot());
    v_foreign := v_behind or (v_known <> v_actual and not adopt.same_xids);
    if v_behind and adopt.same_xids then
        raise exception using errcode = 'MQ016',
            message = 'same_xids must be false: the transaction ids of this cluster are behind those of the data',
            hint = 'Call mqpg.adopt() without arguments to rewrite the transaction ids.';
    end if;
    update mqpg.broker b set incarnation = b.incarnation + 1, system_identifier = v_actual,
        timeline = left(pg_walfile_name(pg_current_wal_insert_lsn()), 8)
    returning b.incarnation into v_incarnation;
    perform mqpg._renew_ids(v_tick, v_foreign);
    perform mqpg._renew_cursors();
    return format('incarnation %s of broker %s: %s', v_incarnation, (select b.broker_id from mqpg.broker b), case
        when v_foreign then 'transaction ids rewritten; what has no offset comes with the next append()'
        else 'transaction ids kept'
    end);
end
$$;
comment on function mqpg.adopt(boolean) is
    'Turn a restored, promoted or recovered copy into a broker';
