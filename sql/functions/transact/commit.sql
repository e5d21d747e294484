-- Commits a half message (protocol T2, step 3). It may be repeated: the first decision stands, and
-- the outcome says which it was. A half message with a delay counts the delay from the commit.
-- Arguments:
--   handle: the handle from prepare(); text that is not a known handle gives the outcome `unknown`.
--   payload: replaces the prepared payload, JSON as text, json or jsonb; without it the prepared
--       one is delivered.
-- Returns: committed, already_committed, already_rolled_back or unknown.
-- Locks: the decision's key; waits for another decision about the same half message.
-- Cost: one row read, one written.
-- Errors: MQ001 (null), MQ010 (payload too large), 22P02 (not JSON).
create function mqpg.commit(handle text) returns mqpg.outcome
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    return mqpg._decide(commit.handle, 'c', 'producer');
end
$$;

create function mqpg.commit(handle text, payload text) returns mqpg.outcome
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    if commit.payload is null then
        raise exception using errcode = 'MQ001', message = 'payload must not be null';
    end if;
    return mqpg._decide(commit.handle, 'c', 'producer', null, commit.payload);
end
$$;

-- The overloads for json and jsonb only turn the payload into text. They run as the caller, with
-- every name qualified, so that a call does not become the owner's twice.
create function mqpg.commit(handle text, payload json) returns mqpg.outcome
language sql as $$
    select mqpg.commit(commit.handle, commit.payload::pg_catalog.text)
$$;

create function mqpg.commit(handle text, payload jsonb) returns mqpg.outcome
language sql as $$
    select mqpg.commit(commit.handle, commit.payload::pg_catalog.text)
$$;
