-- Hands out overdue half messages of a producer group, to be answered by commit(), rollback() or check_wait()
-- within the lease (protocol T3; an app that polls this needs no other checker). Answer wait where you are not sure
-- that the local transaction is over: this call cannot fence. attempt counts the checks, waits apart. After the
-- group's max_checks the half is parked, or rolled back.
-- Locks: the entries' rows, those of others are skipped. Cost: a few lookups, an update and an insert a half.
-- Errors: MQ001, MQ002, MQ004, MQ015 (call it in a READ COMMITTED transaction that has written nothing).
create function mqpg.due_checks(
    producer_group text, max_messages int default 100, lease interval default '30 s'
) returns table (handle text, topic text, key text, headers jsonb, payload json, attempt int)
language sql as $$
    select d.handle, d.topic, d.key, d.headers, d.payload, d.attempt
    from mqpg._due_halves(due_checks.producer_group, due_checks.max_messages, due_checks.lease) d
$$;
comment on function mqpg.due_checks(text, int, interval) is 'Overdue half messages of a producer group, to be answered';
