-- Validates the arguments that create_producer_group() and alter_producer_group() share.
-- Locks: none. Cost: negligible.
create function mqpg._require_producer_group_options(
    producer_group text, check_after interval, max_checks int, on_exhausted text, checker text, checker_target text,
    expire_after interval, max_undecided int
) returns void
language plpgsql stable as $$
begin
    perform mqpg._require_name('producer_group', _require_producer_group_options.producer_group);
    perform mqpg._require_interval('check_after', _require_producer_group_options.check_after, '10 milliseconds');
    perform mqpg._require_range('max_checks', _require_producer_group_options.max_checks, 1, 1000);
    perform mqpg._require_range('max_undecided', _require_producer_group_options.max_undecided, 1, 2147483647);
    perform mqpg._require_one_of(
        'on_exhausted', _require_producer_group_options.on_exhausted, array['park', 'rollback']);
    perform mqpg._require_one_of(
        'checker', _require_producer_group_options.checker, array['due_checks', 'ledger', 'function', 'url']);
    if (_require_producer_group_options.checker_target is not null)
        is distinct from (_require_producer_group_options.checker in ('function', 'url')) then
        raise exception using errcode = 'MQ001', message = format(
            'checker_target must be %s for checker %s',
            case when _require_producer_group_options.checker in ('function', 'url') then 'given' else 'null' end,
            _require_producer_group_options.checker);
    end if;
    if _require_producer_group_options.expire_after is not null then
        perform mqpg._require_interval('expire_after', _require_producer_group_options.expire_after, '10 milliseconds');
    end if;
    if _require_producer_group_options.checker = 'url' then
        perform mqpg._require_name('checker_target', _require_producer_group_options.checker_target);
    end if;
end
$$;
