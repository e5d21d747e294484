-- Why a ledger of this database parks a half message that it has no row of.
-- Locks: none. Cost: negligible.
create function mqpg._lost_rows() returns text
language sql immutable as $$
    select 'the ledger of the broker was made again or lost rows since it was prepared: settle() it'
$$;
