-- What waits for the appender, for operators, auditors and workers; see _unappended().
-- Locks: none. Cost: that of _unappended().
create function mqpg._append_backlog(out waiting bigint, out oldest_at timestamptz)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
begin
    perform mqpg._require_privilege('operator', 'auditor', 'worker');
    select u.waiting, u.oldest_at into _append_backlog.waiting, _append_backlog.oldest_at from mqpg._unappended() u;
end
$$;
