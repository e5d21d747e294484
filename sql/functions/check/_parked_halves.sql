-- Parked half messages of one producer group that expired, or that carry a ledger, in random order.
-- The compensator that knows the ledger asks about them there, as long as they are undecided. Those
-- that were prepared under another ledger are not among them. For place and unmarked see
-- _claim_entries().
-- Locks: none. Cost: the parked entries once, and a few lookups for each of this group.
create function mqpg._parked_halves(
    producer_group text, max_messages int, place text default null, unmarked boolean default true
)
returns table (handle text, ledger text, born_at timestamptz)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp set timezone = 'UTC' as $$
begin
    perform mqpg._require_privilege('worker');
    perform mqpg._require_own_database();
    return query
    select a.message ->> 'handle', a.message ->> 'ledger', h.born_at
    from mqpg.producer_group g
    join pgmq.a_mqpg_oplog a on a.message ->> 'producer_group' = g.name
    cross join lateral (values ((a.message ->> 'message_id')::bigint)) as i(message_id)
    cross join lateral mqpg._half_by_id(i.message_id) h
    where g.name = _parked_halves.producer_group and case
            when a.message ->> 'ledger' is null
                then _parked_halves.unmarked and a.enqueued_at <= clock_timestamp() - g.expire_after
            else _parked_halves.place is null or mqpg._is_ledger_at(g.name, a.message ->> 'ledger', _parked_halves.place)
        end
        and i.message_id / 1024 > g.ledger_since
        and not mqpg._is_decided_half(i.message_id)
    order by random()
    limit _parked_halves.max_messages;
end
$$;
