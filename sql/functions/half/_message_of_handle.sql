-- The message id in a handle, null if there is none. The handle is not verified: it may still be
-- any text.
-- Locks: none. Cost: negligible (inlined), a third of _is_handle().
create function mqpg._message_of_handle(handle text) returns bigint
language sql immutable as $$
    select case
        when length(split_part(_message_of_handle.handle, '.', 3)) between 1 and 18
            and translate(split_part(_message_of_handle.handle, '.', 3), '0123456789', '') = ''
            then split_part(_message_of_handle.handle, '.', 3)::bigint
    end
$$;
