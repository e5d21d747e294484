-- Copies the newest state of one queue of one subscription into a newer slot. It writes a closing
-- row in the old slot, whose version makes a writer with the old state fail, and the same state in
-- the new slot. Returns false when the queue is locked; the next keep() tries again.
-- Locks: the queue's cursor lock, tried only.
-- Cost: one lookup, two inserts.
create function mqpg._carry_cursor(subscription_id int, queue_id int, slot int) returns boolean
language plpgsql as $$
declare
    v_cursor mqpg.cursor;
begin
    if not pg_try_advisory_xact_lock(1836150833, _carry_cursor.subscription_id * 1024 + _carry_cursor.queue_id + 1) then
        return false;
    end if;
    select c.* into v_cursor from mqpg.cursor c
    where c.subscription_id = _carry_cursor.subscription_id and c.queue_id = _carry_cursor.queue_id
    order by c.version desc limit 1;
    if not found or v_cursor.slot >= _carry_cursor.slot then
        return true;
    end if;
    insert into mqpg.cursor (
        version, committed, claimed, at, epoch, subscription_id, slot, queue_id, action, owner, claims)
    values
    (v_cursor.version + 1, v_cursor.committed, v_cursor.claimed, clock_timestamp(), null, v_cursor.subscription_id,
        v_cursor.slot, v_cursor.queue_id, 'c', v_cursor.owner, v_cursor.claims),
    (v_cursor.version + 2, v_cursor.committed, v_cursor.claimed, clock_timestamp(), null, v_cursor.subscription_id,
        _carry_cursor.slot, v_cursor.queue_id, 'k', v_cursor.owner, v_cursor.claims);
    return true;
end
$$;
comment on function mqpg._carry_cursor(int, int, int) is
    'Internal: copy one cursor into a newer slot';
