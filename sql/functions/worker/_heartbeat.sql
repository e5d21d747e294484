-- Writes the heartbeat of a worker process.
-- Locks: the row of that process. Cost: one row written.
create function mqpg._heartbeat(
    worker_id text, role text, host text, pid int, state text, detail jsonb
) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    insert into mqpg.worker as w (worker_id, role, host, pid, state, detail)
    values (
        _heartbeat.worker_id, _heartbeat.role, _heartbeat.host, _heartbeat.pid, _heartbeat.state,
        _heartbeat.detail)
    on conflict on constraint worker_pkey do update
    set state = excluded.state, detail = excluded.detail, seen_at = clock_timestamp();
end
$$;
comment on function mqpg._heartbeat(text, text, text, int, text, jsonb) is
    'Internal: write the heartbeat of a process';
