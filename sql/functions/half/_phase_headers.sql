-- The headers of the message that carries a phase of a relay topic's half message: the half's own
-- headers, the phase, and the handle.
-- Locks: none. Cost: negligible.
create function mqpg._phase_headers(headers jsonb, phase text, handle text) returns jsonb
language plpgsql immutable as $$
begin
    if jsonb_typeof(_phase_headers.headers) not in ('object', 'null') then
        raise exception using errcode = 'MQ001', message = format(
            'headers must be null or a JSON object in a relay topic, not %s', jsonb_typeof(_phase_headers.headers));
    end if;
    return coalesce(nullif(_phase_headers.headers, 'null'), '{}')
        || jsonb_build_object('mqpg-phase', _phase_headers.phase, 'mqpg-handle', _phase_headers.handle);
end
$$;
