-- Rolls a half message back (protocol T2, step 3): idempotent, the first decision stands.
-- Locks: the decision's key; waits for another decision under way. Cost: one row read, one written.
-- Errors: MQ001 (null).
create function mqpg.rollback(handle text) returns mqpg.outcome
language sql as $$
    select mqpg._decide(rollback.handle, 'b', 'producer')
$$;
comment on function mqpg.rollback(text) is 'Roll a half message back; the first decision stands';
