-- Locks one partition exclusively, for a last look before it is dropped; false when it is in use.
-- Locks: ACCESS EXCLUSIVE on the partition, until commit, waited for at most 100 ms.
-- Cost: negligible.
create function mqpg._lock_partition(parent text, segment_no bigint) returns boolean
language plpgsql
set lock_timeout = '100ms' as $$
begin
    execute format('lock table mqpg.%I in access exclusive mode',
        _lock_partition.parent || '_' || _lock_partition.segment_no);
    return true;
exception when lock_not_available then
    return false;
end
$$;
comment on function mqpg._lock_partition(text, bigint) is
    'Internal: lock a partition unless it is in use';
