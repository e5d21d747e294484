-- Commits a half message (protocol T2, step 3): idempotent, the first decision stands, and the outcome says
-- which it was. A payload given here replaces the prepared one. A delayed half counts its delay from here.
-- Locks: the decision's key; waits for another decision under way. Cost: one row read, one written.
-- Errors: MQ001 (null), MQ010, 22P02 (not JSON).
create function mqpg.commit(handle text) returns mqpg.outcome
language sql as $$
    select mqpg._decide(commit.handle, 'c', 'producer')
$$;
comment on function mqpg.commit(text) is 'Commit a half message; the first decision stands';

create function mqpg.commit(handle text, payload text) returns mqpg.outcome
language plpgsql as $$
begin
    if commit.payload is null then
        raise exception using errcode = 'MQ001', message = 'payload must not be null';
    end if;
    return mqpg._decide(commit.handle, 'c', 'producer', null, commit.payload);
end
$$;
comment on function mqpg.commit(text, text) is
    'Commit a half message with its final payload; the first decision stands';

create function mqpg.commit(handle text, payload json) returns mqpg.outcome
language plpgsql as $$
begin
    if commit.payload is null then
        raise exception using errcode = 'MQ001', message = 'payload must not be null';
    end if;
    return mqpg._decide(commit.handle, 'c', 'producer', null, commit.payload::text);
end
$$;
comment on function mqpg.commit(text, json) is
    'Commit a half message with its final payload; the first decision stands';

create function mqpg.commit(handle text, payload jsonb) returns mqpg.outcome
language plpgsql as $$
begin
    if commit.payload is null then
        raise exception using errcode = 'MQ001', message = 'payload must not be null';
    end if;
    return mqpg._decide(commit.handle, 'c', 'producer', null, commit.payload::text);
end
$$;
comment on function mqpg.commit(text, jsonb) is
    'Commit a half message with its final payload; the first decision stands';
