-- Whether a text names exactly one function. PostgreSQL would raise an error of its own for text
-- that is no name of anything (unbalanced quotes, too many dots).
-- Locks: none. Cost: one lookup, in a subtransaction.
create function mqpg._names_function(target text) returns boolean
language plpgsql stable as $$
begin
    return to_regproc(_names_function.target) is not null;
exception
    when syntax_error or invalid_name or name_too_long or feature_not_supported or invalid_schema_name
        or insufficient_privilege then
        return false;
end
$$;
