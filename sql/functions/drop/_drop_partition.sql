-- Drops one partition, or returns false when the table is in use. It needs a moment without any
-- open transaction on the parent, and while it waits all other transactions queue behind it. It
-- therefore waits 60 ms at most. The parent is locked first and the partition second, as everybody
-- else does it. Whoever holds the parent can wait for no partition then, so the second wait is
-- short, and both are far shorter than deadlock_timeout: nobody becomes a deadlock victim. A
-- partition that is detached already is dropped alone, and nobody queues.
-- Locks: ACCESS EXCLUSIVE on the parent and then on the partition, until commit.
-- Cost: DDL.
create function mqpg._drop_partition(parent text, segment_no bigint) returns boolean
language plpgsql
set lock_timeout = '60ms' as $$
declare
    v_name text := mqpg._partition_name(_drop_partition.parent, _drop_partition.segment_no);
    v_parent regclass;
begin
    select i.inhparent::regclass into v_parent from pg_inherits i where i.inhrelid = to_regclass('mqpg.' || v_name);
    if found then
        execute format('lock table only %s in access exclusive mode', v_parent);
        set local lock_timeout = '20ms';
    end if;
    execute format('drop table if exists mqpg.%I', v_name);
    return true;
exception when lock_not_available then
    return false;
end
$$;
