-- How messages call a ledger in another database: its identity, and where it was noted first.
-- Locks: none. Cost: one lookup.
create function mqpg._ledger_name(producer_group text, ledger text) returns text
language sql stable as $$
    select 'the ledger ' || _ledger_name.ledger || coalesce(' (' || (
        select p.place from mqpg.producer_ledger p
        join mqpg.producer_group g on g.producer_group_id = p.producer_group_id
        where g.name = _ledger_name.producer_group and p.ledger = _ledger_name.ledger
        order by p.noted_at limit 1) || ')', '')
$$;
