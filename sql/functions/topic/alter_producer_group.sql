-- Changes a producer group; null leaves a value as it is. A new check_after holds for halves prepared
-- from now on. A ledger (checker ledger or url) takes what it does not know for rolled back, so a group does not
-- get another one while halves are undecided (MQ018), and those whose prepare() is still open then are parked when
-- their time has come; a function or an app must know itself what it knows.
-- Locks: the group's row, see _lock_producer_group. Cost: one update; with another ledger, a look at the undecided
-- halves.
-- Errors: MQ001, MQ004, MQ018, 55P03, 40001.
create function mqpg.alter_producer_group(
    producer_group text, check_after interval default null, max_checks int default null,
    on_exhausted text default null, checker text default null, checker_target text default null
) returns void
language plpgsql as $$
declare
    v_group mqpg.producer_group := mqpg._lock_producer_group(alter_producer_group.producer_group);
    v_before mqpg.producer_group := v_group;
begin
    v_group.check_after := coalesce(alter_producer_group.check_after, v_group.check_after);
    v_group.max_checks := coalesce(alter_producer_group.max_checks, v_group.max_checks);
    v_group.on_exhausted := coalesce(alter_producer_group.on_exhausted, v_group.on_exhausted);
    v_group.checker := coalesce(alter_producer_group.checker, v_group.checker);
    v_group.checker_target := case
        when v_group.checker in ('function', 'url')
            then coalesce(alter_producer_group.checker_target, v_group.checker_target)
        else alter_producer_group.checker_target
    end;
    perform mqpg._require_producer_group_options(
        v_group.name, v_group.check_after, v_group.max_checks, v_group.on_exhausted, v_group.checker,
        v_group.checker_target);
    if v_group.checker in ('ledger', 'url')
        and (v_group.checker, v_group.checker_target) is distinct from (v_before.checker, v_before.checker_target)
    then
        v_group.ledger_since := nextval('mqpg.batch_id');
        if exists (select from mqpg.half_pending h where h.producer_group = v_group.name)
            or exists (select from mqpg.half_parked h where h.producer_group = v_group.name) then
            raise exception using errcode = 'MQ018',
                message = format('producer group %L has undecided half messages, and another ledger would take those '
                    'that it does not know for rolled back', v_group.name),
                hint = 'Let them be decided first (views half_pending and half_parked), or have new ones in another '
                    'group.';
        end if;
    end if;
    update mqpg.producer_group g set
        check_after = v_group.check_after,
        max_checks = v_group.max_checks,
        on_exhausted = v_group.on_exhausted,
        checker = v_group.checker,
        checker_target = v_group.checker_target,
        ledger_since = v_group.ledger_since
    where g.producer_group_id = v_group.producer_group_id;
end
$$;
comment on function mqpg.alter_producer_group(text, interval, int, text, text, text) is 'Change a producer group';
