-- Finds local transactions that committed in the ledger of this database although their half
-- message was never committed, and commits these half messages (protocol T6). It is the plan for
-- producers without check-back. It may run any number of times, also concurrently, because each
-- decision is made once. If a call is rolled back, the next one decides the same again.
-- Arguments:
--   older_than: leave younger ledger rows to their producer; default 1 minute.
--   max_messages: list at most so many, 1 to 100000; default 1000.
--   settle: true (default) commits the undecided ones; false only lists.
-- Returns: state is undecided, rolled_back (an administrator decided against the ledger) or absent
-- (a restore lost the half message). outcome is the result of the commit, or null if none was
-- tried: those rows need a person to look at them.
-- Locks: the decisions' keys in ascending order; waits for other decisions about them.
-- Cost: an anti-join of the ledger and the op log, and one decision for each hit.
-- Errors: MQ001 (argument).
create function mqpg.reconcile(
    older_than interval default '1 minute', max_messages int default 1000, settle boolean default true
) returns table (handle text, message_id bigint, topic text, key text, state text, outcome mqpg.outcome)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    perform mqpg._require_privilege('produce', 'operator');
    perform mqpg._require_interval('older_than', reconcile.older_than, '0');
    perform mqpg._require_range('max_messages', reconcile.max_messages, 1, 100000);
    if reconcile.settle is null then
        raise exception using errcode = 'MQ001', message = 'settle must be true or false, not null';
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
