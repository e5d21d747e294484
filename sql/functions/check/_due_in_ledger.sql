-- Hands out overdue half messages of one group to the compensator that serves the ledger in another
-- database that was noted at `place`, as due_checks() does. `unmarked` says that it also answers for
-- those that carry no ledger. Those of other ledgers stay where they are.
-- Locks, cost: as of due_checks().
create function mqpg._due_in_ledger(
    producer_group text, max_messages int, lease interval, place text, unmarked boolean
) returns table (handle text, ledger text, born_at timestamptz)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    perform mqpg._require_privilege('worker');
    return query
    select d.handle, d.ledger, d.born_at
    from mqpg._due_halves(_due_in_ledger.producer_group, _due_in_ledger.max_messages, _due_in_ledger.lease,
        _due_in_ledger.place, _due_in_ledger.unmarked) d;
end
$$;
