-- Hands out overdue half messages of a producer group. Answer each by commit(), rollback() or
-- check_wait() within the lease (protocol T3). An app that polls this function needs no other
-- checker. Answer with check_wait() unless you are sure that the local transaction is over, because
-- this call cannot fence it. After the group's max_checks the half message is parked, or rolled
-- back.
-- Arguments:
--   producer_group: name of the group.
--   max_messages: hand out at most so many, 1 to 10000; default 100.
--   lease: how long until each is handed out again if it is not answered, at least 10 ms; default
--       30 s.
-- Returns: attempt counts the checks, without those answered by check_wait(). A half message that
-- was prepared with the identity of a ledger has it in the header mqpg-ledger.
-- Locks: the entries' rows; entries that others have locked are skipped.
-- Cost: a few lookups, an update and an insert for each half message.
-- Errors: MQ001 (argument), MQ002 (name), MQ004 (unknown group), MQ015 (must be called in a READ
-- COMMITTED transaction that has written nothing).
--
-- Example:
--     select handle, payload from mqpg.due_checks('shop', lease => '1 minute');
--     -- look for each handle in your own tables, then for each:
--     select mqpg.commit('<handle>');
create function mqpg.due_checks(
    producer_group text, max_messages int default 100, lease interval default '30 s'
) returns table (handle text, topic text, key text, headers jsonb, payload json, attempt int)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    -- A compensator polls for the groups that it asks about outside the database.
    if not (mqpg._has_privilege('worker') and exists (
        select from mqpg.producer_group g where g.name = due_checks.producer_group and g.checker = 'url')) then
        perform mqpg._require_producer_group(due_checks.producer_group);
    end if;
    return query
    select d.handle, d.topic, d.key,
        case
            when d.ledger is null then d.headers
            else coalesce(d.headers, '{}') || jsonb_build_object('mqpg-ledger', d.ledger)
        end, d.payload, d.attempt
    from mqpg._due_halves(due_checks.producer_group, due_checks.max_messages, due_checks.lease) d;
end
$$;
