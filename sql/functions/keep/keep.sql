-- Maintains the segments: it notes which are in use, begins new ones by age, makes some ahead,
-- copies cursors to newer slots, closes complete segments, and drops what is past retention and no
-- longer needed (I11). It works in two steps: one call releases a table, when nothing in it is
-- needed any more, and a later call drops it. One call does at most one of the two, and none if it
-- made or carried something. Where there is nothing to release or drop, a call does one step of
-- merging closed segments. While another keeper is at work it does nothing. A drop needs a moment
-- without any open transaction on the table. Where transactions overlap all the time there is no
-- such moment, and the call reports `blocked`. The keeper process (`mqpg worker`) detaches
-- partitions concurrently instead, which a function cannot do; everything else is the same. Call it
-- until it returns no row except pinned and blocked, then about every minute. A worker does that;
-- pg_cron may call it too.
-- Returns: one row for each thing that it did. action: opened, rolled, made, carried, closed,
-- released (nothing in it is needed any more), dropped, pinned (detail says by what), freed (oldest
-- offsets moved), lost (by a policy), blocked (in use, tried again next time), purged, merging and
-- merged (closed segments become one).
-- It also notes in worker_status that it was called, and whether messages wait for append().
-- Locks: the keeper's, until commit; it holds others up for 100 ms at most.
-- Cost: a few lookups when there is nothing to do.
-- Errors: MQ015 (must be called in a READ COMMITTED transaction that has written nothing).
create function mqpg.keep() returns table (action text, family text, segment_no bigint, detail text)
language plpgsql security definer set search_path = pg_catalog, pg_temp set timezone = 'UTC' set jit = off as $$
begin
    perform mqpg._require_privilege('worker');
    return query select k.* from mqpg._keep(true) k;
    perform mqpg._apply_size_limits();
    perform mqpg._note_call('keeper');
    -- append() leaves no trace while there is nothing to append, so what waits says whether it is called.
    perform mqpg._note_call('appender', coalesce(u.oldest_at > clock_timestamp() - interval '30 seconds', true))
    from mqpg._unappended() u;
end
$$;
