-- How many messages of a queue are done although an earlier one is not: a seek to `committed`
-- delivers them again. With a filter it also counts those that were not chosen.
-- Locks: none. Cost: linear in the claims.
create function mqpg._acknowledged_ahead(last_version mqpg.cursor) returns bigint
language sql stable as $$
    select (_acknowledged_ahead.last_version).claimed - (_acknowledged_ahead.last_version).committed - coalesce((
        select sum(case
            when c.picked is not null then cardinality(c.picked)
            else c.to_offset - c.from_offset - coalesce(cardinality(c.settled), 0)
        end)
        from unnest((_acknowledged_ahead.last_version).claims) as c), 0)::bigint
$$;
