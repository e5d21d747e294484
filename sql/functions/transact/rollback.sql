-- Rolls a half message back (protocol T2, step 3). It may be repeated: the first decision stands,
-- and the outcome says which it was.
-- Arguments:
--   handle: the handle from prepare(); text that is not a known handle gives the outcome `unknown`.
-- Returns: rolled_back, already_rolled_back, already_committed or unknown.
-- Locks: the decision's key; waits for another decision about the same half message.
-- Cost: one row read, one written.
-- Errors: MQ001 (null).
create function mqpg.rollback(handle text) returns mqpg.outcome
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    return mqpg._decide(rollback.handle, 'b', 'producer');
end
$$;
