-- Rolls many half messages back at once; outcomes in argument order.
-- Locks: the decisions' keys in ascending order; waits for others under way. Cost: one row read and one
-- written each. Errors: MQ001 (nulls).
create function mqpg.rollback_batch(handles text []) returns table (handle text, outcome mqpg.outcome)
language sql as $$
    select d.handle, d.outcome from mqpg._decide_batch(rollback_batch.handles, 'b', 'producer') d
$$;
comment on function mqpg.rollback_batch(text []) is 'Roll many half messages back; outcomes in argument order';
