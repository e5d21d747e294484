-- Raises for headers that are longer as text than the topic allows for a payload, or than 8 KiB if that
-- is more. Each delivery repeats them. What counts is the text, because a number such as 1e100000 is
-- short only as it is stored. The ids under which recovery has sent a message before do not count up
-- to 2 MiB, because it must be sent.
-- Locks: none. Cost: one look at each.
-- Errors: MQ010.
create function mqpg._require_headers(headers jsonb [], max_payload int) returns void
language plpgsql immutable as $$
declare
    v_size int;
begin
    select h.size into v_size
    from unnest(_require_headers.headers) as u(h)
    cross join lateral (
        select octet_length(
            case jsonb_typeof(u.h) when 'object' then u.h - 'mqpg-earlier-ids' else u.h end::text)
            + greatest(octet_length((u.h -> 'mqpg-earlier-ids')::text) - 2097152, 0) as size
    ) as h
    where h.size > greatest(_require_headers.max_payload, 8192)
    limit 1;
    if found then
        raise exception using errcode = 'MQ010', message = format(
            'headers have %s bytes; the topic allows %s', v_size, greatest(_require_headers.max_payload, 8192));
    end if;
end
$$;
