-- The parts of a handle; all null if the text is no handle.
-- Locks: none. Cost: one regular expression.
create function mqpg._parse_handle(
    handle text, out broker_id text, out incarnation int, out message_id bigint, out nonce uuid
)
language plpgsql immutable as $$
begin
    if mqpg._is_handle(_parse_handle.handle) then
        broker_id := split_part(_parse_handle.handle, '.', 1);
        incarnation := split_part(_parse_handle.handle, '.', 2)::int;
        message_id := split_part(_parse_handle.handle, '.', 3)::bigint;
        nonce := split_part(_parse_handle.handle, '.', 4)::uuid;
    end if;
end
$$;
