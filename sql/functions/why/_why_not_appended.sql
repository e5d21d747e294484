-- Why a committed message has no offset yet: append() does not run, or cannot. A call of append()
-- is open for a moment whenever something is new, so it is a cause only where messages have been
-- waiting for a second, and no call has ended since then. On an idle broker the last one is long
-- ago.
-- Locks: none. Cost: reads the server's list of locks, and one row for each worker; that of
-- _unappended() where the lock of append() is held.
create function mqpg._why_not_appended() returns table (cause text, detail jsonb, remedy jsonb)
language plpgsql stable as $$
declare
    v_worker record;
    v_holder jsonb := (mqpg._table_sessions('mqpg.append_lock', 'ExclusiveLock'))[1];
    v_last timestamptz := (select t.at from mqpg.tick t order by t.tick_id desc limit 1);
begin
    select w.* into v_worker from mqpg._newest_worker('appender') w;
    detail := jsonb_strip_nulls(jsonb_build_object(
        'seen_at', v_worker.seen_at, 'last_error', v_worker.last_error, 'last_append_at', v_last));
    if v_holder is not null and clock_timestamp() - interval '1 second'
            > greatest(v_last, (select u.oldest_at from mqpg._unappended() u)) then
        cause := 'append_locked';
        detail := detail || v_holder;
    elsif v_worker.at_work then
        cause := 'not_appended';
    else
        cause := 'appender_not_running';
        detail := detail || coalesce(v_worker.seat, '{}');
        remedy := mqpg._remedy('append', '{}');
    end if;
    return next;
end
$$;
