-- Makes a consumer the owner of a pinned queue without an owner, before it gets a retry of that
-- queue. Returns whether it is the owner now. It is not if another transaction has the queue's
-- lock. A message whose queue is not known (null), because its body is missing, is for anyone.
-- Locks: the queue's cursor lock, tried only.
-- Cost: one cursor version, with the action `filtered` (see _action()).
-- Errors: 40001.
create function mqpg._own_queue(subscription_id int, queue_id int, consumer text) returns boolean
language plpgsql as $$
declare
    v_cursor mqpg.cursor;
    v_version bigint;
begin
    if _own_queue.queue_id is null then
        return true;
    end if;
    if not mqpg._lock_free_cursor(_own_queue.subscription_id, _own_queue.queue_id) then
        return false;
    end if;
    v_cursor := mqpg._cursor(_own_queue.subscription_id, _own_queue.queue_id);
    if v_cursor.owner is null then
        v_version := mqpg._write_cursor(
            v_cursor, mqpg._action('filtered'), null, v_cursor.claimed, _own_queue.consumer, v_cursor.claims);
        return true;
    end if;
    return v_cursor.owner = _own_queue.consumer;
end
$$;
