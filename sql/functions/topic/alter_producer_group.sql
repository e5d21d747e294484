-- Changes a producer group. An argument that is null leaves its value unchanged.
-- With checker `ledger` or `url`, a handle that the ledger does not contain means rollback. A group
-- therefore cannot get another ledger while half messages are undecided. Half messages whose
-- prepare() was still open then are parked when they are overdue. With checker `function` or
-- `due_checks` this is not restricted, because a function or an app itself knows what it can answer
-- for. With another ledger it warns if no compensator serves that at this moment.
-- Arguments:
--   producer_group: name of the group.
--   check_after: how long after prepare() an undecided half message is checked; applies to half
--       messages prepared from now on.
--   max_checks: checks without an answer until on_exhausted applies, 1 to 1000.
--   on_exhausted: 'park' (wait for an administrator) or 'rollback'.
--   checker: 'due_checks', 'ledger', 'function' or 'url'; see create_producer_group().
--   checker_target: what the checker needs; null keeps it with 'function' and 'url' and removes it
--       otherwise.
--   expire_after: how long a half message may stay undecided; applies also to those that are
--       undecided now. 100 years and more: for ever.
--   max_undecided: how many half messages may be undecided, 1 to 2147483647; counted again within about
--       a second.
-- Locks: the group's row, exclusively, up to the setting lock_timeout.
-- Cost: one update; with another ledger also the undecided half messages.
-- Errors: MQ001 (argument), MQ004 (unknown group), MQ018 (undecided half messages), 55P03, 40001.
create function mqpg.alter_producer_group(
    producer_group text, check_after interval default null, max_checks int default null,
    on_exhausted text default null, checker text default null, checker_target text default null,
    expire_after interval default null, max_undecided int default null
) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_checked boolean := mqpg._require_privilege('operator');
    v_group mqpg.producer_group := mqpg._producer_group(alter_producer_group.producer_group);
    v_before mqpg.producer_group;
    v_timeout text := mqpg._apply_lock_timeout();
begin
    select g.* into v_group from mqpg.producer_group g
    where g.producer_group_id = v_group.producer_group_id
    for no key update;
    if not found then
        raise exception using errcode = 'MQ004', message = format(
            'producer group %L was dropped meanwhile', alter_producer_group.producer_group);
    end if;
    perform set_config('lock_timeout', v_timeout, true);
    v_before := v_group;
    v_group.check_after := coalesce(mqpg._seconds(alter_producer_group.check_after), v_group.check_after);
    v_group.max_checks := coalesce(alter_producer_group.max_checks, v_group.max_checks);
    v_group.on_exhausted := coalesce(alter_producer_group.on_exhausted, v_group.on_exhausted);
    v_group.checker := coalesce(alter_producer_group.checker, v_group.checker);
    v_group.checker_target := case
        when v_group.checker in ('function', 'url')
            then coalesce(alter_producer_group.checker_target, v_group.checker_target)
        else alter_producer_group.checker_target
    end;
    v_group.expire_after := case
        when alter_producer_group.expire_after is null then v_group.expire_after
        when alter_producer_group.expire_after < interval '100 years' then mqpg._seconds(alter_producer_group.expire_after)
    end;
    v_group.max_undecided := coalesce(alter_producer_group.max_undecided, v_group.max_undecided);
    perform mqpg._require_producer_group_options(
        v_group.name, v_group.check_after, v_group.max_checks, v_group.on_exhausted, v_group.checker,
        v_group.checker_target, v_group.expire_after, v_group.max_undecided);
    if v_group.checker <> 'function' then
        v_group.checker_owner := null;
    elsif alter_producer_group.checker is not null or alter_producer_group.checker_target is not null then
        v_group.checker_owner := mqpg._require_checker_function(v_group.checker_target);
    end if;
    if v_group.checker in ('ledger', 'url')
        and (v_group.checker, v_group.checker_target) is distinct from (v_before.checker, v_before.checker_target)
    then
        v_group.ledger_since := nextval('mqpg.batch_id');
        if exists (select from mqpg.half_pending h where h.producer_group = v_group.name)
            or exists (select from mqpg.half_parked h where h.producer_group = v_group.name) then
            raise exception using errcode = 'MQ018',
                message = format('the ledger of producer group %L cannot change while half messages are undecided',
                    v_group.name),
                detail = 'A handle that the other ledger does not contain would be rolled back.',
                hint = 'Wait until they are decided (views half_pending and half_parked), or use another producer '
                    'group for new ones.';
        end if;
    end if;
    update mqpg.producer_group g set
        check_after = v_group.check_after, max_checks = v_group.max_checks, on_exhausted = v_group.on_exhausted,
        checker = v_group.checker, checker_target = v_group.checker_target, checker_owner = v_group.checker_owner,
        expire_after = v_group.expire_after, ledger_since = v_group.ledger_since,
        max_undecided = v_group.max_undecided,
        overfull_at = case when alter_producer_group.max_undecided is null then v_group.overfull_at end
    where g.producer_group_id = v_group.producer_group_id;
    if (v_group.checker, v_group.checker_target) is distinct from (v_before.checker, v_before.checker_target) then
        perform mqpg._warn_of_unserved_ledger(v_group);
    end if;
end
$$;
