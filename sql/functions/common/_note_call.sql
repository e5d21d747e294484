-- Notes in worker_status that a role's work is done by calls of a function, such as those of pg_cron:
-- with pid 0, and alive for five minutes, because it is called about every minute. If a process of
-- that role is alive, there is nothing to note.
-- Arguments: role: appender, compensator or keeper; works: false if its work is not done.
-- Locks: the row, if no other call has it. Cost: one row written, at most every 10 seconds.
create function mqpg._note_call(role text, works boolean default true) returns void
language plpgsql as $$
declare
    v_state text := case when _note_call.works then 'active' else 'stopped' end;
    v_known mqpg.worker;
begin
    if exists (select from mqpg.worker_status w where w.role = _note_call.role and w.alive and w.pid > 0) then
        return;
    end if;
    select w.* into v_known from mqpg.worker w where w.worker_id = 'calls-' || _note_call.role;
    if not found then
        -- Without the lock the insert would wait for another call that has made the row.
        insert into mqpg.worker (worker_id, role, host, pid, state)
        select 'calls-' || _note_call.role, _note_call.role, 'SQL', 0, v_state
        where _note_call.works and pg_try_advisory_xact_lock(hashtextextended('mqpg.worker ' || _note_call.role, 0))
        on conflict do nothing;
    elsif v_known.state <> v_state or v_known.seen_at < clock_timestamp() - interval '10 seconds' then
        update mqpg.worker w set state = v_state, seen_at = clock_timestamp()
        where w.worker_id = (
            select k.worker_id from mqpg.worker k where k.worker_id = v_known.worker_id for update skip locked);
    end if;
end
$$;
