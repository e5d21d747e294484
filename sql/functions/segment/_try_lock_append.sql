-- Takes the lock of append() until the end of the transaction. Returns false if another transaction
-- has it.
-- Locks: append_lock, EXCLUSIVE, tried only.
-- Cost: a subtransaction.
create function mqpg._try_lock_append() returns boolean
language plpgsql as $$
begin
    lock table mqpg.append_lock in exclusive mode nowait;
    return true;
exception when lock_not_available then
    return false;
end
$$;
