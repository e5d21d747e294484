-- The set-difference plan for producers without check-back (protocol T6), for the ledger in this database: lists what
-- committed locally longer ago than older_than and was never committed here, looks each up, and commits it unless
-- settle is false. state: undecided, rolled_back, absent; outcome: what the commit came to, null where none was tried
-- (a decision stands, a lost half cannot be committed: these are for people to look at). Any number may run at once,
-- for a decision is made once and the outcome says by whom; one that was rolled back is repeated by the next.
-- Locks: the decisions' keys in ascending order; waits for others under way. Cost: an anti-join of the ledger and the
-- op log, a decision for each hit. Errors: MQ001.
create function mqpg.reconcile(
    older_than interval default '1 minute', max_messages int default 1000, settle boolean default true
) returns table (handle text, message_id bigint, topic text, key text, state text, outcome mqpg.outcome)
language plpgsql as $$
begin
    perform mqpg._require_interval('older_than', reconcile.older_than, '0');
    perform mqpg._require_range('max_messages', reconcile.max_messages, 1, 100000);
    if reconcile.settle is null then
        raise exception using errcode = 'MQ001', message = 'settle must be true or false';
    end if;
    for handle, message_id, topic, key, state in
        select u.* from mqpg._uncommitted_ledger_rows(reconcile.older_than, reconcile.max_messages) u
    loop
        outcome := null;
        if reconcile.settle and state = 'undecided' then
            outcome := mqpg._decide(handle, 'c', 'checker', 'reconcile: the ledger says committed');
            perform mqpg._forget_entry(message_id);
        end if;
        return next;
    end loop;
end
$$;
comment on function mqpg.reconcile(interval, int, boolean) is
    'Find and commit what the ledger of this database committed and the broker never heard of';
