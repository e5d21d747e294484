-- What would move something, as data: a function of mqpg, and its arguments by name, null if the
-- caller is to choose. Clients write it as a statement, as a command, or as a button.
-- Locks: none. Cost: negligible.
create function mqpg._remedy(name text, arguments jsonb) returns jsonb
language sql immutable as $$
    select jsonb_build_object('function', _remedy.name, 'arguments', _remedy.arguments)
$$;
