-- _parse_handle() for many texts: place in the array, broker, incarnation, message id and nonce of
-- those that are handles.
-- Locks: none. Cost: one regular expression for each.
create function mqpg._parse_handles(handles text [])
returns table (place bigint, broker_id text, incarnation int, message_id bigint, nonce uuid)
language sql immutable as $$
    with part as materialized (    -- the form first, the casts later
        select u.o, string_to_array(u.handle, '.') as p
        from unnest(_parse_handles.handles) with ordinality as u(handle, o)
        where u.handle ~ '^[0-9a-f]+[.][1-9][0-9]*[.][1-9][0-9]*[.][0-9a-f]+$'
    ),
    fit as materialized (
        select f.o, f.p from part f
        where length(f.p[1]) = 12 and length(f.p[2]) <= 9 and length(f.p[3]) <= 18 and length(f.p[4]) = 32
    )
    select f.o, f.p[1], f.p[2]::int, f.p[3]::bigint, f.p[4]::uuid from fit f
$$;
comment on function mqpg._parse_handles(text []) is 'Internal: parts of many handles';
