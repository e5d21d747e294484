-- Whether a text has the form of a handle, so that its parts can be cast.
-- Locks: none. Cost: one regular expression (inlined).
create function mqpg._is_handle(handle text) returns boolean
language sql immutable as $$
    -- No leading zeros, because a handle is the key of ledgers and must be one text. The lengths
    -- are compared apart, because a pattern with {1,18} costs three times as much.
    select _is_handle.handle ~ '^[0-9a-f]+[.][1-9][0-9]*[.][1-9][0-9]*[.][0-9a-f]+$'
        and substr(_is_handle.handle, 13, 1) = '.'
        and length(split_part(_is_handle.handle, '.', 2)) <= 9
        and lpad(split_part(_is_handle.handle, '.', 3), 20, '0') <= '09223372036854775807' collate "C"
        and length(split_part(_is_handle.handle, '.', 4)) = 32
$$;
