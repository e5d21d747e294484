-- Refuses to append in another cluster than the one that wrote the rows. After a restore from a
-- dump, xids start again, so a stored snapshot says nothing about them.
-- Locks: none.
-- Cost: reads the control file.
-- Errors: MQ016.
create function mqpg._require_own_cluster(s0 pg_snapshot, s1 pg_snapshot) returns void
language plpgsql as $$
declare
    v_known bigint := (select b.system_identifier from mqpg.broker b);
    v_actual bigint := (select c.system_identifier from pg_control_system() c);
begin
    if v_known <> v_actual or pg_snapshot_xmax(_require_own_cluster.s0) > pg_snapshot_xmax(_require_own_cluster.s1) then
        raise exception using errcode = 'MQ016',
            message = 'this database was restored into another cluster, where its transaction ids are not valid',
            detail = format('system identifier %s recorded, %s found; newest tick %s, current snapshot %s',
                v_known, v_actual, _require_own_cluster.s0, _require_own_cluster.s1),
            hint = 'Appending would lose or repeat messages. Stop all workers and call mqpg.adopt() to continue here.';
    end if;
end
$$;
comment on function mqpg._require_own_cluster(pg_snapshot, pg_snapshot) is
    'Internal: refuse to append in another cluster';
