-- Deallocates the prepared statements of this session if they are others than in `before`, a result
-- of _prepared_statements(), and returns whether they were. The client then gets an error for a
-- statement that it had prepared, and does not run another one under its name.
-- Locks: none. Cost: negligible.
create function mqpg._forget_statements(before text) returns boolean
language plpgsql as $$
begin
    if mqpg._prepared_statements() is not distinct from _forget_statements.before then
        return false;
    end if;
    deallocate all;
    return true;
end
$$;
