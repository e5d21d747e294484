-- Whether a filter and tags choose a message.
-- Locks: none. Cost: parses the payload where there is a filter.
create function mqpg._matches(filter jsonpath, tags text [], key text, tag text, headers jsonb, payload json)
returns boolean
language sql stable as $$
    select case
        when _matches.tags is not null and _matches.tag = any(_matches.tags) is not true then false
        when _matches.filter is null then true
        else mqpg._matches_filter(_matches.filter, _matches.key, _matches.tag, _matches.headers, _matches.payload)
    end
$$;
