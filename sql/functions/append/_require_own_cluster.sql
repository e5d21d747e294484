-- Raises in another cluster than the one that wrote the rows, and on another timeline. After a
-- restore from a dump, xids start again, so a stored snapshot says nothing about them. After a
-- promotion or a recovery to a point in time, ids may have been given out that the copy does not
-- know. A copy that was started without a recovery keeps its timeline, so it is not noticed here.
-- Locks: none. Cost: reads the control file.
create function mqpg._require_own_cluster(s0 pg_snapshot, s1 pg_snapshot) returns void
language plpgsql as $$
declare
    v_known bigint;
    v_timeline text;
    v_actual bigint := (select c.system_identifier from pg_control_system() c);
    v_now text := left(pg_walfile_name(pg_current_wal_insert_lsn()), 8);
begin
    select b.system_identifier, b.timeline into v_known, v_timeline from mqpg.broker b;
    if v_known <> v_actual or pg_snapshot_xmax(_require_own_cluster.s0) > pg_snapshot_xmax(_require_own_cluster.s1) then
        raise exception using errcode = 'MQ016',
            message = 'this database was restored into another cluster, where its transaction ids are not valid',
            detail = format('system identifier %s recorded, %s found; newest tick %s, current snapshot %s',
                v_known, v_actual, _require_own_cluster.s0, _require_own_cluster.s1),
            hint = 'Appending would lose or repeat messages. Stop all workers, then call adopt() '
                '(mqpg migrate adopt) to go on here.';
    end if;
    if v_timeline <> v_now then
        raise exception using errcode = 'MQ016',
            message = 'this server was promoted or recovered, and what the other one gave out last is not known here',
            detail = format('timeline %s recorded, %s found', v_timeline, v_now),
            hint = 'Stop all workers, then call adopt() (mqpg migrate adopt) to go on here.';
    end if;
end
$$;
