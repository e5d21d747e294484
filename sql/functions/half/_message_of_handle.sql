-- The message id in a handle, null if there is none. The handle is not verified: it may still be
-- any text, and a longer number than an id has is cut.
-- Locks: none. Cost: negligible (inlined).
create function mqpg._message_of_handle(handle text) returns bigint
language sql immutable as $$
    select case
        when split_part(_message_of_handle.handle, '.', 3) ~ '^[0-9]+$'
            then left(split_part(_message_of_handle.handle, '.', 3), 18)::bigint
    end
$$;
