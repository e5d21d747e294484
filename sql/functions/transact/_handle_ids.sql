-- The texts that may be handles, with the message ids that they name and their places in the array.
-- Their other parts are not looked at: the caller computes the handle of each message and compares
-- the whole text.
-- Locks: none. Cost: negligible for each.
create function mqpg._handle_ids(handles text []) returns table (place bigint, handle text, message_id bigint)
language sql immutable as $$
    with named as materialized (    -- the form first, the cast later
        select u.o, u.handle, split_part(u.handle, '.', 3) as id
        from unnest(_handle_ids.handles) with ordinality as u(handle, o)
    ),
    fit as materialized (
        select n.o, n.handle, n.id from named n
        where (length(n.id) between 1 and 18 or length(n.id) = 19 and n.id <= '9223372036854775807') and translate(n.id, '0123456789', '') = ''
    )
    select f.o, f.handle, f.id::bigint from fit f
$$;
