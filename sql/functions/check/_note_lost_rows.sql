-- Notes that the broker's own ledger may lack rows of the half messages that exist now. keep(), which
-- deletes only rows of half messages that are decided, says so in the setting mqpg.purging.
-- Locks: the row of mqpg.ledger_loss.
-- Cost: one update.
create function mqpg._note_lost_rows() returns trigger
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
    if tg_op = 'TRUNCATE' or current_setting('mqpg.purging', true) is distinct from 'on' then
        insert into mqpg.ledger_loss (ledger_oid, since)
        values ('mqpg.ledger'::regclass, pg_snapshot_xmax(pg_current_snapshot()))
        on conflict (singleton) do update set since = excluded.since;
    end if;
    return null;
end
$$;
