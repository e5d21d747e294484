-- Changes a producer group; null leaves a value as it is. A new check_after holds for halves prepared
-- from now on.
-- Locks: the group's row. Cost: one update. Errors: MQ001, MQ004.
create function mqpg.alter_producer_group(
    producer_group text, check_after interval default null, max_checks int default null,
    on_exhausted text default null, checker text default null, checker_target text default null
) returns void
language plpgsql as $$
declare
    v_group mqpg.producer_group := mqpg._producer_group(alter_producer_group.producer_group);
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
    perform mqpg._check_producer_group(
        v_group.name, v_group.check_after, v_group.max_checks, v_group.on_exhausted, v_group.checker,
        v_group.checker_target);
    update mqpg.producer_group g set
        check_after = v_group.check_after,
        max_checks = v_group.max_checks,
        on_exhausted = v_group.on_exhausted,
        checker = v_group.checker,
        checker_target = v_group.checker_target
    where g.producer_group_id = v_group.producer_group_id;
end
$$;
comment on function mqpg.alter_producer_group(text, interval, int, text, text, text) is 'Change a producer group';
