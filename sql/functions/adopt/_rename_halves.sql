-- Gives the half messages of a copied broker, which gets an id of its own, handles of its own, also
-- in the queue of overdue ones and in this database's ledger. The handles of the original then name
-- nothing here. Ledgers in other databases keep them, so adopt() has their half messages parked.
-- Locks: the rows. Cost: a row written for each.
create function mqpg._rename_halves(broker_id text) returns void
language sql as $$
    update pgmq.q_mqpg_oplog q
    set message = q.message || jsonb_build_object('handle', _rename_halves.broker_id || substr(q.message ->> 'handle', 13));
    update pgmq.a_mqpg_oplog a
    set message = a.message || jsonb_build_object('handle', _rename_halves.broker_id || substr(a.message ->> 'handle', 13));
    update mqpg.expired_half e set handle = _rename_halves.broker_id || substr(e.handle, 13);
    update mqpg.ledger l set handle = _rename_halves.broker_id || substr(l.handle, 13)
$$;
