-- The newest heartbeat of the workers of one role, and whether one of them is at work: it reported
-- within the last 30 s, and somebody holds the seat of the role, which ends with a killed worker.
-- Locks: none. Cost: one row for each worker; reads the server's list of locks.
create function mqpg._newest_worker(
    role text, out at_work boolean, out seen_at timestamptz, out last_error text, out seat jsonb
)
language plpgsql stable as $$
begin
    seat := mqpg._lock_session(1836150837, case _newest_worker.role when 'appender' then 1 else 2 end);
    select coalesce(bool_or(w.state = 'active' and w.seen_at > clock_timestamp() - interval '30 seconds'), false)
            and _newest_worker.seat is not null,
        max(w.seen_at), (array_agg(w.detail ->> 'last_error' order by w.seen_at desc))[1]
    into _newest_worker.at_work, _newest_worker.seen_at, _newest_worker.last_error
    from mqpg.worker w
    where w.role = _newest_worker.role;
end
$$;
