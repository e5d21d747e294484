-- Copies a cursor that the caller has just written into the newest slot. So a queue that is always
-- inside a transaction leaves an old slot, too, although keep() never finds it free.
-- It does nothing when this session does not know the partition of that slot yet, which can only be
-- while keep() commits. The next writer copies the cursor then.
-- Locks: none beyond the new rows; the caller holds the queue's cursor lock.
-- Cost: one lookup, two inserts and a subtransaction, once for each slot.
create function mqpg._copy_own_cursor(subscription_id int, queue_id int, slot int) returns void
language plpgsql as $$
declare
    v_slot int := _copy_own_cursor.slot;
begin
    while mqpg._has_newer_slot(v_slot) loop
        v_slot := v_slot + 1;
    end loop;
    perform mqpg._copy_cursors(
        array[_copy_own_cursor.subscription_id * 1024 + _copy_own_cursor.queue_id + 1], v_slot);
exception when check_violation then
    null;
end
$$;
