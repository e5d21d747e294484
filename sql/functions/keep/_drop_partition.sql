-- Drops one partition, or returns false when the table is in use. DROP needs a moment without any
-- open transaction on the parent, and while it waits all other transactions queue behind it. It
-- therefore waits 100 ms at most.
-- Locks: ACCESS EXCLUSIVE on the partition and the parent, until commit.
-- Cost: DDL.
create function mqpg._drop_partition(parent text, segment_no bigint) returns boolean
language plpgsql
set lock_timeout = '100ms' as $$
begin
    execute format('drop table if exists mqpg.%I', _drop_partition.parent || '_' || _drop_partition.segment_no);
    return true;
exception when lock_not_available then
    return false;
end
$$;
comment on function mqpg._drop_partition(text, bigint) is
    'Internal: drop a partition unless it is in use';
