-- Whether a handle names a half message of this broker that is not decided.
-- Locks: none.
-- Cost: two index lookups.
create function mqpg._is_open(handle text) returns boolean
language plpgsql stable as $$
declare
    v_half record;
begin
    select h.* into v_half from mqpg._half(_is_open.handle) h;
    return v_half.known and not mqpg._is_decided(v_half.message_id);
end
$$;
comment on function mqpg._is_open(text) is
    'Internal: whether a handle names an undecided half message';
