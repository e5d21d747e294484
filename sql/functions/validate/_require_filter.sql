-- Raises for a filter that names a variable other than $headers, $key and $tag, because it would
-- fail only when a message is evaluated, that is no predicate, because it would choose nothing, or
-- that has a back-reference, because it may take many seconds for one message. A predicate gives
-- exactly one item for any payload, and that is true, false or null. A path gives none for the
-- empty object, or one of another type.
-- Locks: none. Cost: some regular expressions and one evaluation.
create function mqpg._require_filter(filter jsonpath, tags text []) returns void
language plpgsql immutable as $$
declare
    v_name text;
    v_items jsonb;
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
    v_name := mqpg._back_reference(_require_filter.filter);
    if v_name is not null then
        raise exception using errcode = 'MQ020', message = format(
            'filter may not use the back-reference %s in a regular expression, because such a search may take '
            'many seconds for one message', v_name),
            hint = 'Alternatives, repetitions and look-ahead are allowed. Flag "q" makes a backslash plain text.';
    end if;
    v_items := jsonb_path_query_array(
        '{}', _require_filter.filter, '{"headers": {}, "key": "", "tag": ""}', true);
    if v_items not in ('[true]', '[false]', '[null]')
        or replace(_require_filter.filter::text, 'strict ', '') in ('false', 'null') then
        raise exception using errcode = 'MQ020', message = format(
            'filter must be a predicate such as $.total > 100 or $.paid == true; %s is none, so it would choose no '
            'message', _require_filter.filter),
            hint = 'exists($.total ? (@ > 100)) makes a predicate of a path.';
    end if;
    if array_ndims(_require_filter.tags) > 1 or array_position(_require_filter.tags, null) is not null then
        raise exception using errcode = 'MQ001',
            message = 'tags must be a one-dimensional array without null; leave it out for messages of any tag or none';
    end if;
end
$$;
