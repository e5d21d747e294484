-- Checks the arguments that create_producer_group and alter_producer_group share (MQ001, MQ002).
-- Locks: none. Cost: none to speak of.
create function mqpg._check_producer_group(
    producer_group text, check_after interval, max_checks int, on_exhausted text, checker text, checker_target text
) returns void
language plpgsql stable as $$
begin
    perform mqpg._check_name('producer_group', _check_producer_group.producer_group);
    perform mqpg._interval('check_after', _check_producer_group.check_after, '10 milliseconds');
    perform mqpg._check_range('max_checks', _check_producer_group.max_checks, 1, 1000);
    perform mqpg._check_one_of('on_exhausted', _check_producer_group.on_exhausted, array['park', 'rollback']);
    perform mqpg._check_one_of(
        'checker', _check_producer_group.checker, array['due_checks', 'ledger', 'function', 'url']);
    if (_check_producer_group.checker_target is not null)
        is distinct from (_check_producer_group.checker in ('function', 'url')) then
        raise exception using errcode = 'MQ001', message = format(
            'checker_target must be %s for checker %s',
            case when _check_producer_group.checker in ('function', 'url') then 'given' else 'null' end,
            _check_producer_group.checker);
    end if;
    if _check_producer_group.checker = 'url' then
        perform mqpg._check_name('checker_target', _check_producer_group.checker_target);
    end if;
    if _check_producer_group.checker = 'function' and to_regproc(_check_producer_group.checker_target) is null then
        raise exception using errcode = 'MQ001', message = format(
            'checker_target %L names no function, or more than one', _check_producer_group.checker_target);
    end if;
end
$$;
comment on function mqpg._check_producer_group(text, interval, int, text, text, text)
    is 'Internal: refuse invalid settings of a producer group';
