-- Notes that the ledger at `place` has these identities, for all producer groups that name them. A
-- compensator may reach a database by another name than its producers.
-- Locks: the new rows. Cost: a lookup for each identity.
create function mqpg._note_ledgers(ledgers text [], place text) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    perform mqpg._require_privilege('worker');
    insert into mqpg.producer_ledger (producer_group_id, ledger, place)
    select distinct p.producer_group_id, p.ledger, left(_note_ledgers.place, 500)
    from mqpg.producer_ledger p where p.ledger = any(_note_ledgers.ledgers)
    on conflict on constraint producer_ledger_pkey do nothing;
end
$$;
