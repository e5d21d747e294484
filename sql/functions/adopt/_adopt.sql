-- What adopt() and adopt_promoted() do when they hold the appender's lock.
-- Locks and cost: those of adopt().
create function mqpg._adopt(same_xids boolean) returns text
language plpgsql as $$
declare
    v_tick mqpg.tick;
    v_known bigint := (select b.system_identifier from mqpg.broker b);
    v_actual bigint := (select c.system_identifier from pg_control_system() c);
    v_behind boolean;
    v_foreign boolean;
    v_incarnation int;
    v_own_oid oid := (select d.oid from pg_database d where d.datname = current_database());
    -- The original is still there: this is another broker.
    v_is_copy boolean := v_known = v_actual and exists (
        select from mqpg.broker b join pg_database d on d.oid = b.database_oid where d.oid <> v_own_oid);
begin
    perform pg_advisory_xact_lock(1836150834, 1);
    perform pg_advisory_xact_lock(1836150835, 0);
    lock table mqpg.cursor in share row exclusive mode;
    update mqpg.segment s set decided_at = null where s.decided_at is not null;
    perform mqpg._cancel_merge(m.family, 'the broker was adopted') from mqpg.segment_merge m;
    perform mqpg._require_rows();
    select t.* into v_tick from mqpg.tick t order by t.tick_id desc limit 1;
    v_behind := v_tick.snapshot_xmax > pg_snapshot_xmax(pg_current_snapshot());
    v_foreign := v_behind or (v_known <> v_actual and not _adopt.same_xids);
    if v_behind and _adopt.same_xids then
        raise exception using errcode = 'MQ016',
            message = 'same_xids must be false: the transaction ids of this cluster are behind those of the data',
            hint = 'Call adopt() (mqpg migrate adopt) without arguments. It rewrites the transaction ids.';
    end if;
    update mqpg.broker b set incarnation = b.incarnation + 1, system_identifier = v_actual, database_oid = v_own_oid,
        broker_id = case when v_is_copy then substr(replace(gen_random_uuid()::text, '-', ''), 1, 12) else b.broker_id end,
        timeline = left(pg_walfile_name(pg_current_wal_insert_lsn()), 8)
    returning b.incarnation into v_incarnation;
    update mqpg.ledger_loss l set ledger_oid = 'mqpg.ledger'::regclass,
        since = case when l.since > '0' then pg_snapshot_xmax(pg_current_snapshot()) else '0' end;
    if v_is_copy then
        perform mqpg._rename_halves((select b.broker_id from mqpg.broker b));
    end if;
    perform mqpg._renew_ids(v_tick, v_foreign);
    if v_is_copy then
        -- Ledgers in other databases, and users' tables, know the halves by the original's handles, so that what is
        -- committed there would be rolled back. They are parked: see _needs_no_check().
        update mqpg.producer_group g set ledger_since = nextval('mqpg.batch_id') where g.checker <> 'ledger';
    end if;
    update mqpg.broker b set adoption_ticks = b.adoption_ticks || (select max(t.tick_id) from mqpg.tick t);
    update mqpg.topic_growth g set waits_for = null, settled_batch = null, settled_xid = null
    where g.boundaries is null;
    perform mqpg._renew_cursors();
    return format('incarnation %s of broker %s: %s', v_incarnation, (select b.broker_id from mqpg.broker b), case
        when v_foreign then 'transaction ids rewritten; what has no offset comes with the next append()'
        else 'transaction ids kept'
    end);
end
$$;
