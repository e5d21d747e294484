-- The parts of a handle; all null where the text is no handle.
-- Locks: none. Cost: one regular expression.
create function mqpg._parse_handle(
    handle text, out broker_id text, out incarnation int, out message_id bigint, out nonce uuid
)
language plpgsql immutable as $$
begin
    -- no leading zeros: a handle is one text, since ledgers are keyed by it; lengths apart: a pattern
    -- with {1,18} costs three times as much
    if _parse_handle.handle ~ '^[0-9a-f]+\.[1-9][0-9]*\.[1-9][0-9]*\.[0-9a-f]+$'
        and length(split_part(_parse_handle.handle, '.', 1)) = 12
        and length(split_part(_parse_handle.handle, '.', 2)) <= 9
        and length(split_part(_parse_handle.handle, '.', 3)) <= 18
        and length(split_part(_parse_handle.handle, '.', 4)) = 32 then
        broker_id := split_part(_parse_handle.handle, '.', 1);
        incarnation := split_part(_parse_handle.handle, '.', 2)::int;
        message_id := split_part(_parse_handle.handle, '.', 3)::bigint;
        nonce := split_part(_parse_handle.handle, '.', 4)::uuid;
    end if;
end
$$;
comment on function mqpg._parse_handle(text) is 'Internal: parts of a handle, nulls if malformed';
