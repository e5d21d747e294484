-- Whether the ledger of an identity was noted at this place for the producer group.
-- Locks: none. Cost: one lookup.
create function mqpg._is_ledger_at(producer_group text, ledger text, place text) returns boolean
language sql stable as $$
    select exists (
        select from mqpg.producer_group g
        join mqpg.producer_ledger p on p.producer_group_id = g.producer_group_id
        where g.name = _is_ledger_at.producer_group and p.ledger = _is_ledger_at.ledger
            and p.place = _is_ledger_at.place)
$$;
