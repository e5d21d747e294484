-- Whether a handle names a half message of this broker that is not decided.
-- Locks: none. Cost: two index lookups.
create function mqpg._is_open_half(handle text) returns boolean
language plpgsql stable as $$
declare
    v_half record;
begin
    select h.* into v_half from mqpg._half_by_handle(_is_open_half.handle) h;
    return v_half.known and not mqpg._is_decided_half(v_half.message_id);
end
$$;
