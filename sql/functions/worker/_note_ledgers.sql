-- Notes that the ledger at `place` has these identities, for these producer groups. A compensator may
-- reach a database by another name than its producers, and a producer that calls prepare() itself
-- notes nothing.
-- Locks: the new rows. Cost: a lookup for each group and identity.
create function mqpg._note_ledgers(producer_groups text [], ledgers text [], place text) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    perform mqpg._require_privilege('worker');
    insert into mqpg.producer_ledger (producer_group_id, ledger, place)
    select g.producer_group_id, l.ledger, left(_note_ledgers.place, 500)
    from mqpg.producer_group g, unnest(_note_ledgers.ledgers) as l(ledger)
    where g.name = any(_note_ledgers.producer_groups)
    on conflict on constraint producer_ledger_pkey do nothing;
end
$$;
