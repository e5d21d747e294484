-- Whether a message matches a subscription's filter. An error of the filter or the payload at run
-- time means no match: JSON that jsonb refuses (\u0000, a number out of range, too deep, an array that
-- takes a gigabyte of memory, which is 33 MB of numbers), or a comparison of times that needs a time zone.
-- Locks: none. Cost: parses the payload, in a subtransaction.
create function mqpg._matches_filter(filter jsonpath, key text, tag text, headers jsonb, payload json) returns boolean
language plpgsql immutable as $$
begin
    return coalesce(jsonb_path_match(
        _matches_filter.payload::jsonb, _matches_filter.filter,
        jsonb_build_object('headers', _matches_filter.headers, 'key', _matches_filter.key,
            'tag', _matches_filter.tag), true), false);
exception when data_exception or feature_not_supported or program_limit_exceeded or undefined_object then
    return false;
when internal_error then
    if sqlerrm not like 'invalid memory alloc request size %' then
        raise;
    end if;
    return false;
end
$$;
