-- Copies the newest states of some cursors into a newer slot: it writes a closing row into the old
-- slot and the same state into the new one. A writer that knows only the state before the closing
-- row fails, because a version is unique within a slot. States that are in that slot already are
-- left out. `keys` are the keys of the cursors' locks. Returns how many states were copied.
-- Locks: none; the caller holds the cursor locks.
-- Cost: one lookup and two inserts for each cursor.
-- Errors: 23514 (this session does not know the new partition yet).
create function mqpg._copy_cursors(keys int [], slot int) returns int
language plpgsql set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off as $$
declare
    v_rows int;
begin
    insert into mqpg.cursor (
        version, committed, claimed, at, epoch, subscription_id, slot, queue_id, action, owner, claims)
    select k.version + r.nth, k.committed, k.claimed, clock_timestamp(), null, k.subscription_id,
        case r.action when mqpg._action('closed') then k.slot else _copy_cursors.slot end, k.queue_id, r.action,
        k.owner, k.claims
    from unnest(_copy_cursors.keys) as u(key)
    cross join lateral mqpg._newest_cursor(u.key / 1024, u.key % 1024 - 1) as k
    cross join (values (1, mqpg._action('closed')), (2, mqpg._action('carried'))) as r(nth, action)
    where k.slot < _copy_cursors.slot;
    get diagnostics v_rows = row_count;
    return v_rows / 2;
end
$$;
