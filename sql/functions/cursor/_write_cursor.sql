-- Writes the next version of a cursor and returns its number. What calls it often assigns the
-- result, because PERFORM costs an executor run. `claims` may come in any order and lack the finished ones. A
-- caller whose snapshot is too old to see the newest version gets 40001.
-- The version goes into the slot of the one before, because that is where it must be unique. If
-- keep() has begun a newer slot, the caller then copies the cursor there, which adds two versions.
-- Locks: none beyond the new rows; the caller holds the queue's cursor lock.
-- Cost: one insert; three in a slot that is not the newest.
-- Errors: 40001.
create function mqpg._write_cursor(
    last_version mqpg.cursor, action "char", epoch bigint, claimed bigint, owner text, claims mqpg.claim [],
    failed bigint [] default null, reason text default null
) returns bigint
language plpgsql as $$
declare
    v_claims mqpg.claim [] := coalesce(_write_cursor.claims, '{}');
    v_version bigint := _write_cursor.last_version.version + 1;
begin
    if cardinality(v_claims) > 1 then
        v_claims := array(select c from unnest(v_claims) c order by (c).from_offset);
    end if;
    insert into mqpg.cursor (
        subscription_id, queue_id, slot, version, committed, claimed, at, action, epoch, owner, claims, failed,
        reason)
    values (
        _write_cursor.last_version.subscription_id, _write_cursor.last_version.queue_id,
        _write_cursor.last_version.slot, v_version,
        coalesce((v_claims[1]).from_offset, _write_cursor.claimed), _write_cursor.claimed, clock_timestamp(),
        _write_cursor.action, _write_cursor.epoch, _write_cursor.owner, v_claims,
        _write_cursor.failed, _write_cursor.reason)
    on conflict do nothing;
    if not found then
        raise exception using errcode = '40001', message = 'the queue was read concurrently: try the transaction again';
    end if;
    if mqpg._has_newer_slot(_write_cursor.last_version.slot) then
        perform mqpg._copy_own_cursor(
            _write_cursor.last_version.subscription_id, _write_cursor.last_version.queue_id,
            _write_cursor.last_version.slot);
    end if;
    return v_version;
end
$$;
