-- Whether a handle names a half message of this broker that is not decided.
-- Locks: none. Cost: two index lookups.
create function mqpg._is_open_half(handle text) returns boolean
language sql stable as $$
    select h.known and not mqpg._is_decided_half(h.message_id) from mqpg._half_by_handle(_is_open_half.handle) h
$$;
