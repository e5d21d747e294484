-- Makes one empty partition: CREATE TABLE LIKE, then ATTACH, which does not stop senders and
-- receivers. (CREATE TABLE … PARTITION OF would wait for every open reader and block all others
-- meanwhile.) ATTACH has nothing to scan in an empty table, so no CHECK constraint is needed. It
-- also makes the indexes, of which one may be the replica identity.
-- Locks: SHARE UPDATE EXCLUSIVE on the parent, waited for at most 200 ms.
-- Cost: DDL.
-- Errors: 55P03.
create function mqpg._make_partition(parent text, segment_no bigint, lower_bound text, upper_bound text)
returns void
language plpgsql
set lock_timeout = '200ms' as $$
declare
    v_name text := mqpg._partition_name(_make_partition.parent, _make_partition.segment_no);
begin
    execute format(
        'create table mqpg.%I (like mqpg.%I including defaults including constraints including storage'
        ' including compression)', v_name, _make_partition.parent);
    execute format('alter table mqpg.%I attach partition mqpg.%I for values from (%L) to (%L)',
        _make_partition.parent, v_name, _make_partition.lower_bound, _make_partition.upper_bound);
    perform mqpg._identify_rows('mqpg', v_name);
end
$$;
