-- Notes where a producer of a group found the ledger of an identity. The library calls it before it
-- prepares the first half message with that identity.
-- Locks: the new row. Cost: one insert.
create function mqpg._note_ledger(producer_group text, ledger text, place text) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_group mqpg.producer_group := mqpg._require_producer_group(_note_ledger.producer_group);
begin
    insert into mqpg.producer_ledger (producer_group_id, ledger, place)
    values (v_group.producer_group_id, left(_note_ledger.ledger, 8), left(_note_ledger.place, 500))
    on conflict on constraint producer_ledger_pkey do nothing;
end
$$;
