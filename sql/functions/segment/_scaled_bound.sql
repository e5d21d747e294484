-- A segment's bound as a bound of one of its tables.
-- Locks: none. Cost: negligible.
create function mqpg._scaled_bound(bound text, per_unit int) returns text
language sql immutable as $$
    select case
        when _scaled_bound.per_unit = 1 then _scaled_bound.bound
        else (_scaled_bound.bound::bigint * _scaled_bound.per_unit)::text
    end
$$;
