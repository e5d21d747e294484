-- When something happens, for a sentence: how long until then, and the time of the server's clock.
-- Locks: none. Cost: negligible.
create function mqpg._until(at timestamptz) returns text
language sql stable strict as $$
    select case
        when not isfinite(_until.at) or _until.at <= clock_timestamp() then 'now'
        else format('in %s (at %s, server time)', mqpg._duration(_until.at - clock_timestamp()),
            date_trunc('second', _until.at))
    end
$$;
