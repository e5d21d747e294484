-- When a delayed message becomes visible, by the server's clock; null means at once.
-- Locks: none. Cost: negligible.
create function mqpg._visible_at(retention interval, delay interval, deliver_at timestamptz) returns timestamptz
language plpgsql as $$
declare
    v_now timestamptz := clock_timestamp();
    v_at timestamptz;
begin
    if _visible_at.delay is not null and _visible_at.deliver_at is not null then
        raise exception using errcode = 'MQ001', message = 'give delay or deliver_at, not both';
    end if;
    if _visible_at.delay is not null then
        perform mqpg._require_interval('delay', _visible_at.delay, '0');
    end if;
    -- After the check, because a time may overflow.
    v_at := coalesce(_visible_at.deliver_at, v_now + mqpg._seconds(_visible_at.delay));
    if v_at > v_now + mqpg._seconds(_visible_at.retention) then
        raise exception using errcode = 'MQ001', message = format(
            '%s must lie within the topic''s retention of %s',
            case when _visible_at.delay is null then 'deliver_at' else 'delay' end, _visible_at.retention);
    end if;
    if v_at > v_now then
        return v_at;
    end if;
    return null;
end
$$;
