-- Raises in another cluster than the one that wrote the rows, in a copy of the database on the same
-- cluster, and on another timeline. After a restore from a dump, xids start again, so a stored
-- snapshot says nothing about them. A copy beside its original would deliver its messages again and
-- ask its ledgers. After a promotion or a recovery to a point in time, ids may have been given out
-- that the copy does not know. A copy of the whole cluster that was started without a recovery keeps
-- its timeline, so it is not noticed here.
-- Locks: none. Cost: reads the control file.
-- Errors: MQ016.
create function mqpg._require_own_database(newest pg_snapshot default null) returns void
language plpgsql stable as $$
declare
    v_broker record;
    v_cluster bigint := (pg_control_system()).system_identifier;
    v_timeline text := left(pg_walfile_name(pg_current_wal_insert_lsn()), 8);
begin
    select b.system_identifier, b.database_oid, b.timeline,
        (select d.datname from pg_database d where d.oid = b.database_oid) as database into v_broker
    from mqpg.broker b;
    if not found then
        perform mqpg._require_rows();
    end if;
    if v_broker.system_identifier <> v_cluster
        or pg_snapshot_xmax(_require_own_database.newest) > pg_snapshot_xmax(pg_current_snapshot()) then
        raise exception using errcode = 'MQ016',
            message = 'this database was restored into another cluster, where its transaction ids are not valid',
            detail = format('system identifier %s recorded, %s found; newest tick %s, current snapshot %s',
                v_broker.system_identifier, v_cluster, _require_own_database.newest, pg_current_snapshot()),
            hint = 'Appending would lose or repeat messages. Stop all workers, then call adopt() '
                '(mqpg migrate adopt) to go on here.';
    end if;
    if v_broker.database_oid is not null and v_broker.database is distinct from current_database() then
        raise exception using errcode = 'MQ016',
            message = 'this database is a copy of a broker on the same cluster',
            detail = format('database %s recorded%s', v_broker.database_oid, case
                when v_broker.database is not null then format(', which is %I now', v_broker.database) end),
            hint = 'Appending would deliver its messages again. If it is to replace the original, drop that one first '
                '(to rename it is not enough); broker id, handles and offsets then stay valid. Then call adopt() '
                '(mqpg migrate adopt). Without the drop it makes a broker of its own out of the copy.';
    end if;
    if v_broker.timeline <> v_timeline then
        raise exception using errcode = 'MQ016',
            message = 'this server was promoted or recovered, and what the other one gave out last is not known here',
            detail = format('timeline %s recorded, %s found', v_broker.timeline, v_timeline),
            hint = 'Stop all workers, then call adopt() (mqpg migrate adopt) to go on here.';
    end if;
end
$$;
