-- Creates a producer group, which says how undecided half messages of its producers are checked
-- back (protocol T3). Repeated with equal arguments it changes nothing.
-- Arguments:
--   producer_group: name of the group.
--   check_after: how long after prepare() an undecided half message is checked, at least 10 ms;
--       default 60 s.
--   max_checks: checks without an answer until on_exhausted applies, 1 to 1000; default 15.
--   on_exhausted: 'park' (default; wait for an administrator) or 'rollback'.
--   checker: who is asked: 'due_checks' (default; the app polls due_checks()), 'ledger' (the ledger
--       in this database), 'function' (a SQL function) or 'url' (the ledger in another database,
--       which the compensator knows).
--   checker_target: with 'function', the name of a SECURITY DEFINER function, with its schema,
--       whose owner the caller is a member of; with 'url', a name in the compensator's
--       configuration (a warning says if no compensator serves it now); otherwise null (default).
--   expire_after: how long a half message may stay undecided, at least 10 ms; default 7 days. After
--       that it is rolled back, after a fence; if the fence belongs into another database that does
--       not answer, it is parked until it answers. Null, or 100 years and more: never.
--   max_undecided: how many half messages may be undecided, 1 to 2147483647; default 100000. With more,
--       prepare() raises MQ026. They are counted about once a second, so it may be some more.
-- Locks: the new row.
-- Cost: one insert; with 'url' one look at all locks of the server.
-- Errors: MQ001 (argument), MQ002 (name), MQ011 (the group exists with other arguments).
--
-- Example:
--     select mqpg.create_producer_group('shop', checker => 'ledger', check_after => '30 s');
create function mqpg.create_producer_group(
    producer_group text, check_after interval default '60 s', max_checks int default 15,
    on_exhausted text default 'park', checker text default 'due_checks', checker_target text default null,
    expire_after interval default '7 days', max_undecided int default 100000
) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_checked boolean := mqpg._require_privilege('operator');
    v_group mqpg.producer_group;
    v_owner text;
    v_expire_after interval := case
        when create_producer_group.expire_after < interval '100 years' then mqpg._seconds(create_producer_group.expire_after)
    end;
begin
    perform mqpg._require_producer_group_options(
        create_producer_group.producer_group, create_producer_group.check_after, create_producer_group.max_checks,
        create_producer_group.on_exhausted, create_producer_group.checker, create_producer_group.checker_target,
        v_expire_after, create_producer_group.max_undecided);
    if create_producer_group.checker = 'function' then
        v_owner := mqpg._require_checker_function(create_producer_group.checker_target);
    end if;
    insert into mqpg.producer_group (
        name, check_after, max_checks, on_exhausted, checker, checker_target, checker_owner, expire_after,
        max_undecided)
    values (create_producer_group.producer_group, mqpg._seconds(create_producer_group.check_after),
        create_producer_group.max_checks, create_producer_group.on_exhausted, create_producer_group.checker,
        create_producer_group.checker_target, v_owner, v_expire_after,
        create_producer_group.max_undecided)
    on conflict (name) do nothing
    returning * into v_group;
    if found then
        perform mqpg._warn_of_unserved_ledger(v_group);
        return;
    end if;
    v_group := mqpg._producer_group(create_producer_group.producer_group);
    if (v_group.check_after, v_group.max_checks, v_group.on_exhausted, v_group.checker, v_group.checker_target,
            v_group.expire_after, v_group.max_undecided)
        is distinct from (create_producer_group.check_after, create_producer_group.max_checks,
            create_producer_group.on_exhausted, create_producer_group.checker, create_producer_group.checker_target,
            v_expire_after, create_producer_group.max_undecided)
    then
        raise exception using errcode = 'MQ011',
            message = format('producer group %L exists with other arguments', v_group.name),
            detail = mqpg._remedy('alter_producer_group', jsonb_build_object('producer_group', v_group.name))::text,
            hint = 'Call alter_producer_group() to change it.';
    end if;
    perform mqpg._warn_of_unserved_ledger(v_group);
end
$$;
