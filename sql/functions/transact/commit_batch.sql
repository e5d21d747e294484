-- Commits many half messages at once. Each is decided independently, so an unknown handle does not
-- stop the others.
-- Arguments:
--   handles: the handles from prepare(); none may be null.
--   payloads: an array as long as handles that replaces the prepared payloads, JSON as text, json
--       or jsonb; an element that is null keeps the prepared payload.
-- Returns: one row for each handle, in argument order, with the same outcomes as commit().
-- Locks: the decisions' keys in ascending order; waits for other decisions about them.
-- Cost: one row read and one written for each half message.
-- Errors: MQ001 (a null or different lengths), MQ010 (payload too large), 22P02 (not JSON).
create function mqpg.commit_batch(handles text []) returns table (handle text, outcome mqpg.outcome)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    return query
    select d.handle, d.outcome from mqpg._decide_batch(commit_batch.handles, 'c', 'producer') d;
end
$$;

create function mqpg.commit_batch(handles text [], payloads text [])
returns table (handle text, outcome mqpg.outcome)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    return query
    select d.handle, d.outcome
    from mqpg._decide_batch(commit_batch.handles, 'c', 'producer', coalesce(commit_batch.payloads, '{}')) d;
end
$$;

create function mqpg.commit_batch(handles text [], payloads json [])
returns table (handle text, outcome mqpg.outcome)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    return query
    select d.handle, d.outcome
    from mqpg._decide_batch(commit_batch.handles, 'c', 'producer', coalesce(commit_batch.payloads::text [], '{}')) d;
end
$$;

create function mqpg.commit_batch(handles text [], payloads jsonb [])
returns table (handle text, outcome mqpg.outcome)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    return query
    select d.handle, d.outcome
    from mqpg._decide_batch(commit_batch.handles, 'c', 'producer', coalesce(commit_batch.payloads::text [], '{}')) d;
end
$$;
