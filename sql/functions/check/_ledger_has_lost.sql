-- Whether this database's ledger may lack the row of a half message, because the table was made again
-- or lost rows since that was prepared. Only a row that is there counts then.
-- Locks: the table against DDL, until the end of the transaction. Cost: five lookups.
create function mqpg._ledger_has_lost(message_id bigint) returns boolean
language plpgsql as $$
begin
    perform from mqpg.ledger l where l.handle = '';
    insert into mqpg.ledger_loss (ledger_oid) values ('mqpg.ledger'::regclass) on conflict do nothing;
    update mqpg.ledger_loss s
    set ledger_oid = 'mqpg.ledger'::regclass, since = pg_snapshot_xmax(pg_current_snapshot())
    where s.ledger_oid <> 'mqpg.ledger'::regclass;
    return exists (
        select from mqpg.ledger_loss s
        where s.since > coalesce(
            (select l.xid from mqpg.commit_log l where l.batch_id = _ledger_has_lost.message_id / 1024),
            (select h.xid from mqpg.held h where h.message_id = _ledger_has_lost.message_id)));
end
$$;
