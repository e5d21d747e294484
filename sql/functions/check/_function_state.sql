-- A text that differs after each ALTER or CREATE OR REPLACE of a function. It is volatile, so that
-- it sees what was committed meanwhile.
-- Locks: none. Cost: one lookup.
create function mqpg._function_state(function oid) returns text
language sql volatile as $$
    select p.ctid::text || ' ' || p.xmin::text from pg_catalog.pg_proc p
    where p.oid = _function_state.function
$$;
