-- Commits many half messages at once; outcomes in argument order. A null element of payloads keeps the
-- prepared payload. Handles are decided each for itself: an unknown one does not stop the others.
-- Locks: the decisions' keys in ascending order; waits for others under way. Cost: one row read and one
-- written each. Errors: MQ001 (nulls, lengths), MQ010, 22P02 (not JSON).
create function mqpg.commit_batch(handles text []) returns table (handle text, outcome mqpg.outcome)
language sql as $$
    select d.handle, d.outcome from mqpg._decide_batch(commit_batch.handles, 'c', 'producer') d
$$;
comment on function mqpg.commit_batch(text []) is 'Commit many half messages; outcomes in argument order';

create function mqpg.commit_batch(handles text [], payloads text [])
returns table (handle text, outcome mqpg.outcome)
language sql as $$
    select d.handle, d.outcome
    from mqpg._decide_batch(commit_batch.handles, 'c', 'producer', coalesce(commit_batch.payloads, '{}')) d
$$;
comment on function mqpg.commit_batch(text [], text []) is 'Commit many half messages with final payloads';

create function mqpg.commit_batch(handles text [], payloads json [])
returns table (handle text, outcome mqpg.outcome)
language sql as $$
    select d.handle, d.outcome
    from mqpg._decide_batch(commit_batch.handles, 'c', 'producer', coalesce(commit_batch.payloads::text [], '{}')) d
$$;
comment on function mqpg.commit_batch(text [], json []) is 'Commit many half messages with final payloads';

create function mqpg.commit_batch(handles text [], payloads jsonb [])
returns table (handle text, outcome mqpg.outcome)
language sql as $$
    select d.handle, d.outcome
    from mqpg._decide_batch(commit_batch.handles, 'c', 'producer', coalesce(commit_batch.payloads::text [], '{}')) d
$$;
comment on function mqpg.commit_batch(text [], jsonb []) is 'Commit many half messages with final payloads';
