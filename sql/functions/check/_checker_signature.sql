-- The SQL function that a checker's target names; null: there is none with the arguments of a checker.
-- Locks: none. Cost: one or two lookups.
-- Errors: 42601, 42602, 0A000 and others of to_regprocedure(), for a text that is no name.
create function mqpg._checker_signature(target text) returns regprocedure
language sql volatile as $$
    select coalesce(
        to_regprocedure(_checker_signature.target || '(text, text, jsonb, json)'),
        to_regprocedure(_checker_signature.target || '(text, text, jsonb, jsonb)'))
$$;
