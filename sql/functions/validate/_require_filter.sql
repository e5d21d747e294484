-- Refuses a filter that names a variable other than $headers, $key and $tag, because it would fail
-- only when a message is evaluated, and tags that are not a plain list.
-- Locks: none. Cost: one regular expression.
-- Errors: MQ001 (tags), MQ020 (filter).
create function mqpg._require_filter(filter jsonpath, tags text []) returns void
language plpgsql immutable as $$
declare
    v_name text;
begin
    -- The quoted words in the order of the text. A variable is a quoted word after a $.
    select t.token[1] into v_name
    from regexp_matches(_require_filter.filter::text, E'([$]?"(?:[^"\\\\]|\\\\.)*")', 'g') as t(token)
    where t.token[1] like '$%' and t.token[1] not in ('$"headers"', '$"key"', '$"tag"')
    limit 1;
    if found then
        raise exception using errcode = 'MQ020', message = format(
            'filter may use the variables $headers, $key and $tag, not %s', v_name),
            hint = 'The payload itself is $.';
    end if;
    if array_ndims(_require_filter.tags) > 1 or array_position(_require_filter.tags, null) is not null then
        raise exception using errcode = 'MQ001',
            message = 'tags must be a one-dimensional array without null; leave it out for messages of any tag or none';
    end if;
end
$$;
comment on function mqpg._require_filter(jsonpath, text []) is
    'Internal: refuse a filter that cannot work';
