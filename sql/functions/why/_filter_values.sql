-- What a filter found in a message: each path that occurs in the filter, with the values there, cut
-- to 200 characters. At most ten paths are evaluated. Null where the payload is none that jsonb
-- takes.
-- Locks: none. Cost: parses the payload, and evaluates each path once.
create function mqpg._filter_values(filter jsonpath, key text, tag text, headers jsonb, payload json) returns jsonb
language plpgsql stable as $$
begin
    return (
        select jsonb_object_agg(p.path, case
            when length(v.found::text) > 200 then to_jsonb(left(v.found::text, 200) || ' ...')
            else v.found
        end)
        from (
            select distinct m.m[1] as path
            from regexp_matches(
                _filter_values.filter::text, '([$](?:"[^"]*")?(?:[.]"[^"]*"|[[][*][]]|[[][0-9]+[]])*)', 'g') as m
            order by 1 limit 10
        ) as p
        cross join lateral (select jsonb_path_query_array(
            _filter_values.payload::jsonb, p.path::jsonpath, jsonb_build_object('headers', _filter_values.headers,
                'key', _filter_values.key, 'tag', _filter_values.tag), true) as found
        ) as v);
exception when data_exception or feature_not_supported or program_limit_exceeded or undefined_object
    or syntax_error then
    return null;
when internal_error then
    if sqlerrm not like 'invalid memory alloc request size %' then
        raise;
    end if;
    return null;
end
$$;
