-- Makes one closed partition read-only, for a last look before it is released. Transactions that
-- wrote into it are over when this returns true. Later ones get 40001 from a trigger, and see the
-- newer partition when they try again. It also fires in a session that switches triggers off. Returns
-- false while a transaction that wrote into it is open.
-- Locks: SHARE ROW EXCLUSIVE on the partition, until commit, waited for at most 100 ms. Readers do
-- not wait for it, nor do writers of other partitions.
-- Cost: DDL.
create function mqpg._seal_partition(parent text, segment_no bigint) returns boolean
language plpgsql
set lock_timeout = '100ms' as $$
begin
    execute format(
        'create or replace trigger leaving before insert on mqpg.%1$I for each row'
        ' execute function mqpg._refuse_insert();'
        ' alter table mqpg.%1$I enable always trigger leaving',
        mqpg._partition_name(_seal_partition.parent, _seal_partition.segment_no));
    return true;
exception when lock_not_available then
    return false;
end
$$;
