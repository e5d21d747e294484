-- Rolls many half messages back at once. Each is decided independently, so an unknown handle does
-- not stop the others.
-- Arguments:
--   handles: the handles from prepare(); none may be null.
-- Returns: one row for each handle, in argument order, with the same outcomes as rollback().
-- Locks, cost: as of commit_batch().
-- Errors: MQ001 (a null).
create function mqpg.rollback_batch(handles text []) returns table (handle text, outcome mqpg.outcome)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    return query
    select d.handle, d.outcome from mqpg._decide_batch(rollback_batch.handles, 'b', 'producer') d;
end
$$;
